"""pass@k of policies over temperatures, problem by problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluated, Evaluation
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.models.policy import Policy
from sage_cli.progress import Progress
from sage_cli.reports.passk_over_temperatures import OverTemperatures


def over_temperatures(
    evaluation: Evaluation,
    policies: Sequence[Policy],
    temperatures: Sequence[float],
    progress: Progress,
    initial: Policy | None = None,
) -> OverTemperatures:
    """Measure policies at the evaluation's temperature and at these; what is stored is kept.

    `initial` is their initial policy, measured at the evaluation's temperature alone. pass@1 is
    among the ks. Raises ConfigurationError where there is one temperature alone.
    """
    configured = evaluation.config.sampling.temperature
    grid = tuple(sorted({configured, *temperatures}))
    if len(grid) < 2:
        raise ConfigurationError(
            f"one temperature, {configured:g}, makes no curve",
            "name others with --temperature, as 0.8,1,1.2: each is sampled",
        )
    ks = tuple(dict.fromkeys((1, *evaluation.ks)))
    evaluated = [_measured_at(temperature, evaluation, policies, progress) for temperature in grid]
    passed = {
        key: np.stack(
            [pass_matrix([seed.counts for seed in at.measured[key]], ks) for at in evaluated]
        )
        for key in evaluated[0].measured
    }
    samples = [sample_set for at in evaluated for sample_set in at.provenance.samples or ()]
    provenance = replace(evaluated[0].provenance, samples=tuple(samples))
    sampling = {k: v for k, v in (provenance.sampling or {}).items() if k != "temperature"}
    provenance = replace(provenance, sampling=sampling)
    initial_P = {} if initial is None else _accuracy(evaluation.measure([initial], progress))
    return OverTemperatures(passed, grid, grid.index(configured), ks, provenance, initial_P)


def _accuracy(evaluated: Evaluated) -> dict[str, FloatArray]:
    """Return the pass@1 of one policy on each problem, by benchmark."""
    return {
        benchmark: pass_matrix([seed.counts for seed in seeds], (1,))[:, 0]
        for (benchmark, _), seeds in evaluated.measured.items()
    }


def _measured_at(
    temperature: float, evaluation: Evaluation, policies: Sequence[Policy], progress: Progress
) -> Evaluated:
    """Measure at a temperature. Only figures at the configured one are recorded with runs."""
    config = evaluation.config
    if temperature == config.sampling.temperature:
        return evaluation.measure(policies, progress)
    progress.say(f"at temperature {temperature:g}")
    sampling = config.sampling.model_copy(update={"temperature": temperature})
    at_temperature = replace(evaluation, config=config.model_copy(update={"sampling": sampling}))
    return at_temperature.measure(policies, progress, record=False)
