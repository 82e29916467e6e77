"""Checks of a training run that need rows, settings and signatures, and no model.

One list serves the command, its dry run and `sage doctor`, so that a plan passes nothing that the
command refuses. What depends on the machine, such as packages and GPUs, is for doctor and command.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import check_training_answers
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.load import is_here
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import generated
from sage_cli.problems.source_errors import reading
from sage_cli.settings.own_code import names_code
from sage_cli.training.pass_rates import training_problems
from sage_cli.training.rewards import check_plugins, check_rewards

if TYPE_CHECKING:
    from sage_cli.training.validation import Validation

UNREAD = " (not read: it has no local copy; `sage doctor` reads it)"
"""What a plan says of rows on the Hub, which it doesn't ask."""

PLUGINS, VALIDATION = "plug-ins", "validation"
"""Names of the checks that read no problem that is trained on."""
Check = tuple[str, Callable[[], str]]
"""A check's name, and what returns a description or raises SageError."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RlChecks:
    """The checks of RL under a configuration; what they read is read once."""

    config: SageConfig

    def listed(self) -> Iterator[Check]:
        """Yield every check, from what is quickly told to what reads rows."""
        config = self.config
        yield PLUGINS, lambda: check_plugins(config)
        yield f"RL data {config.data.rl.name}", lambda: f"{len(self.problems):,} problems"
        yield "answers", self._answers
        yield "rewards", lambda: check_rewards(config, self.problems)
        if config.evaluation.every is not None:
            yield VALIDATION, self._validation

    def check(self, *, offline: bool = False) -> str:
        """Raise what the first check finds; return a note on rows that `offline` leaves unread."""
        if offline and not self.is_here:
            check_plugins(self.config)
            return UNREAD
        # a plan needn't make generated problems that no function reads: they hold as they are made
        read = any(names_code(reward.name) for reward in self.config.rl.used_rewards)
        unmade = offline and generated(self.config.data.rl.name) is not None and not read
        for name, check in self.listed():
            if not unmade or name in (PLUGINS, VALIDATION):
                check()
        return ""

    @property
    def is_here(self) -> bool:
        """Return True if the rows of RL can be read without the Hub."""
        with reading(self.config, "data.rl"):
            return is_here(self.config.data.rl.name, self.config.data, self.config.data.rl.split)

    @cached_property
    def problems(self) -> list[Problem]:
        """The problems to train on."""
        with reading(self.config, "data.rl"):
            return training_problems(self.config, self.config.run.root)

    @cached_property
    def validation(self) -> Validation | None:
        """How the policy is validated in training; None if it isn't."""
        if self.config.evaluation.every is None:
            return None
        from sage_cli.training.validation import configured_validation

        return configured_validation(self.config)

    def _answers(self) -> str:
        config, problems = self.config, self.problems
        for warning in check_training_answers(config, problems):
            log.warning("%s", warning)
        config.rl.require_problems([problem.working for problem in problems], config.data.rl)
        converted = sum(problem.gold_text is not None for problem in problems)
        if not converted:
            return f"all {len(problems):,} golds are the file's own; none is read from a solution"
        return f"{converted:,} of {len(problems):,} golds were extracted from worked solutions"

    def _validation(self) -> str:
        validation = self.validation
        names = ", ".join(b.name for b in validation.benchmarks) if validation else ""
        return f"the policy is validated every {self.config.evaluation.every} steps on {names}"


def check_demonstrations(config: SageConfig) -> str:
    """Read the rows of SFT where they are here; return a note where they aren't.

    Raises what training by SFT would raise of them.
    """
    data, source = config.data, config.data.sft
    with reading(config, "data.sft"):
        if not is_here(source.name, data, source.split):
            return UNREAD
        if generated(source.name) is None:
            load_demonstrations(data, config.sft)
    return ""
