"""The results of a trial's replicate, from the store: counted samples, or exact chances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sage_cli.config.specs import EvaluationSpec
from sage_cli.metrics import pooled
from sage_cli.metrics.counts.exact import Worked
from sage_cli.trials.search.scores import ByBenchmark
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.task import Measurements
from sage_cli.trials.trial import Replicate

if TYPE_CHECKING:
    from sage_cli.evaluation.exact.chances import Chances


def stored_results(stored: StoredMeasurements, one: Replicate) -> ByBenchmark | None:
    """Return a replicate's results by benchmark; None unless all of them are stored.

    Raises SageError if what is stored cannot be read.
    """
    if not one.config.evaluation.chances:
        measured = stored.measured(one.policy, one.config)
        return None if measured is None else results_of(measured)
    temperatures = EvaluationSpec.of(one.config).temperatures
    own, initial = (
        stored.chances(policy, one.config, temperatures) if policy.exists else None
        for policy in (one.policy, one.initial)
    )
    if own is None or initial is None:
        return None
    at = temperatures.index(one.config.sampling.temperature)
    return {
        name: Worked(
            chances.problem_ids,
            _at_each(chances, temperatures),
            _at_each(initial[name], temperatures),
            at,
        )
        for name, chances in own.items()
    }


def results_of(measured: Measurements) -> ByBenchmark:
    """Return the counts of a policy by benchmark, evaluation seeds pooled."""
    return {name: pooled([seed.counts for seed in seeds]) for name, seeds in measured.items()}


def _at_each(chances: Chances, temperatures: Sequence[float]) -> np.ndarray:
    return np.stack([chances.at(temperature) for temperature in temperatures])
