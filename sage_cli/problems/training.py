"""Problems to train on by RL, from whatever `data.rl` names."""

from __future__ import annotations

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.problems.gold import is_number
from sage_cli.problems.load import load_benchmark
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import REGISTRY


def load_training_problems(config: SageConfig) -> list[Problem]:
    """The problems of `data.rl`: the first `limit` that it keeps, each problem once.

    A name that also measures, as `arithmetic`, stands for its training part (`arithmetic-train`).
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    source = config.data.rl
    training_part = f"{source.name}-train"
    name = training_part if training_part in REGISTRY else source.name
    problems = load_benchmark(name, config.data, source.fields)
    kept = [p for p in problems if not source.numeric_only or is_number(p.gold)][: source.limit]
    if not kept:
        raise ConfigurationError(
            f"no problem of {source.name} has a numeric gold, and data.rl.numeric_only is true",
            "use --set data.rl.numeric_only=false, or name another source",
        )
    return kept
