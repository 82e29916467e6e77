"""pass@k of policies over temperatures, problem by problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluated, Evaluation
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.models.policy import Policy
from sage_cli.progress import Progress
from sage_cli.reports.over_temperatures import OverTemperatures


def over_temperatures(
    evaluation: Evaluation,
    policies: Sequence[Policy],
    temperatures: Sequence[float],
    progress: Progress,
) -> OverTemperatures:
    """Measure policies at the evaluation's temperature and at these; what is stored is kept.

    pass@1 is among the ks. Raises ConfigurationError where there is one temperature alone.
    """
    own = evaluation.config.sampling.temperature
    grid = tuple(sorted({own, *temperatures}))
    if len(grid) < 2:
        raise ConfigurationError(
            f"one temperature, {own:g}, makes no curve",
            "name others with --temperature, as 0.8,1,1.2: each is sampled",
        )
    ks = tuple(dict.fromkeys((1, *evaluation.ks)))
    each = [_sampled(evaluation, policies, temperature, progress) for temperature in grid]
    passed = {
        key: np.stack(
            [pass_matrix([one.counts for one in found.measured[key]], ks) for found in each]
        )
        for key in each[0].measured
    }
    samples = [one for found in each for one in found.provenance.samples or ()]
    provenance = replace(each[0].provenance, samples=tuple(samples))
    return OverTemperatures(passed, grid, grid.index(own), ks, provenance)


def _sampled(
    evaluation: Evaluation, policies: Sequence[Policy], temperature: float, progress: Progress
) -> Evaluated:
    """Measure at another temperature. What is recorded with runs is of the configured one alone."""
    config = evaluation.config
    if temperature == config.sampling.temperature:
        return evaluation.of(policies).carry_out(progress)
    progress.say(f"at temperature {temperature:g}")
    sampling = config.sampling.model_copy(update={"temperature": temperature})
    other = replace(evaluation, config=config.model_copy(update={"sampling": sampling}))
    return other.of(policies).carry_out(progress, record=False)
