"""Problems to train on by RL, from whatever `data.rl` names."""

from __future__ import annotations

from sage_cli.config.data import DataSection
from sage_cli.errors import ConfigurationError
from sage_cli.problems.gold import is_number
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import trained_on


def load_training_problems(data: DataSection) -> list[Problem]:
    """The problems of `data.rl`: the first `limit` that it keeps, each problem once.

    Of a generator that holds problems out, as `arithmetic`, they are the training split's.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    source = data.rl
    problems = load_problems(trained_on(source.name), data, source.fields, split=source.split)
    kept = [p for p in problems if not source.numeric_only or is_number(p.gold)][: source.limit]
    if not kept:
        raise ConfigurationError(
            f"no problem of {source.name} has a numeric gold, and data.rl.numeric_only is true",
            "use --set data.rl.numeric_only=false, or name another source",
        )
    return kept
