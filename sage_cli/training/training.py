"""What a method trains a policy from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem

if TYPE_CHECKING:
    from sage_cli.training.validation import Validation


@dataclass(frozen=True)
class Training:
    """What RL trains from: the configuration, the policy as it starts, and the problems.

    `validation` measures the policy in training.
    """

    config: SageConfig
    start: Policy
    problems: Sequence[Problem]
    validation: Validation | None
