"""Problems that `sage` makes itself, by their registered names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sage_cli.config.data import DataSection
from sage_cli.problems.generated.arithmetic.problems import ArithmeticProblems
from sage_cli.problems.generated.knights_knaves.generate import knights_knaves_problems
from sage_cli.problems.problem import Problem

GENERATORS: Mapping[str, Callable[[DataSection], list[Problem]]] = {
    "kk-generated": lambda data: knights_knaves_problems(data.knights_knaves),
    "arithmetic": lambda data: ArithmeticProblems(data.arithmetic).test(),
    "arithmetic-dev": lambda data: ArithmeticProblems(data.arithmetic).development(),
    "arithmetic-train": lambda data: ArithmeticProblems(data.arithmetic).training(),
}
"""One for every `Generated` entry of the registry."""
