"""The exact chances of a suite's policies, as far as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_cli.errors import SageError
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.suites.planned import Part
from sage_cli.trials.trial import Replicate

if TYPE_CHECKING:
    from sage_cli.evaluation.exact.chances import Chances

ByBenchmark = Mapping[str, "Chances"]


@dataclass(frozen=True, eq=False)
class ReadReplicate:
    """A replicate with the chances of its policy, and of what it was at steps of its training.

    `steps` are at the evaluation's temperature alone, from the initial policy at step 0 to the
    end; empty where checkpoints are not read.
    """

    replicate: Replicate
    end: ByBenchmark
    steps: Mapping[int, ByBenchmark]

    @property
    def start(self) -> str | None:
        """Return the name of its initial policy."""
        return self.replicate.start

    @property
    def temperature(self) -> float:
        """Return the temperature of its evaluation."""
        return self.replicate.config.sampling.temperature


def read_exact(part: Part, stored: StoredMeasurements) -> dict[str, list[ReadReplicate]]:
    """Return the replicates of each method whose chances are all stored; no model is loaded."""
    reading = part.suite.exact_reading
    found: dict[str, list[ReadReplicate]] = {}
    for trial in part.trials:
        every = (_read(one, stored, reading.at(one.config), part) for one in trial.replicates)
        found[trial.label] = [one for one in every if one is not None]
    return found


def _read(
    one: Replicate, stored: StoredMeasurements, temperatures: Sequence[float], part: Part
) -> ReadReplicate | None:
    try:
        end = stored.chances(one.policy, one.config, temperatures) if one.policy.exists else None
        if end is None:
            return None
        if not part.suite.checkpoints or one.is_initial:
            return ReadReplicate(one, end, {})
        steps = _steps(one, stored)
    except SageError:  # a store that can't be read: the replicate is missing, as its task says
        return None
    return None if steps is None else ReadReplicate(one, end, steps)


def _steps(one: Replicate, stored: StoredMeasurements) -> dict[int, ByBenchmark] | None:
    """Return the chances at each step; None if those of a checkpoint are missing."""
    at = (one.config.sampling.temperature,)
    last = one.config.rl.steps
    found = {
        last if policy.checkpoint is None else policy.checkpoint: stored.chances(
            policy, one.config, at
        )
        for policy in stored.on_the_way(one.policy.run, one.config)
    }
    whole = {step: chances for step, chances in found.items() if chances is not None}
    if len(whole) < len(found):
        return None
    # a path begins at the initial policy, where that is read
    initial = stored.chances(one.initial, one.config, at) if one.initial.exists else None
    return {**({} if initial is None else {0: initial}), **whole}
