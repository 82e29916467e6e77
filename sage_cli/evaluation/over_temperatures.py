"""pass@k of policies over temperatures, problem by problem: from exact chances, or from samples."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluated, Evaluation
from sage_cli.evaluation.exact.chances import exact_reader
from sage_cli.evaluation.exact.listed import lists_right_texts
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.metrics import parse_ks
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.models.policies.policy import Policy
from sage_cli.progress import Progress
from sage_cli.reports.over_temperatures import OverTemperatures
from sage_cli.settings.sections.sweep import higher


def over_temperatures(
    evaluation: Evaluation,
    policies: Sequence[Policy],
    temperatures: Sequence[float],
    progress: Progress,
    *,
    exactly: bool,
) -> OverTemperatures:
    """Measure policies at the evaluation's temperature and at these; what is stored is kept.

    With `exactly` benchmarks whose right texts are listed are read and not sampled. pass@1 is
    among the ks. Raises ConfigurationError where there is one temperature alone.
    """
    own = evaluation.spec.sampling.temperature
    by_chances = {
        one.name: exactly and lists_right_texts(one.name) for one in evaluation.benchmarks
    }
    if not temperatures and all(by_chances.values()):
        temperatures = higher(own)
    grid = tuple(sorted({own, *temperatures}))
    if len(grid) < 2:
        raise ConfigurationError(
            f"one temperature, {own:g}, makes no curve",
            "name others with --temperature, as 0.8,1,1.2: each is sampled",
        )
    # exact chances have no number of samples that would bound k
    bounded = not all(by_chances.values())
    ks = evaluation.ks if bounded else parse_ks(evaluation.spec.evaluation.k, sys.maxsize)
    ks = tuple(dict.fromkeys((1, *ks)))
    passed: dict[tuple[str, str], FloatArray] = {}
    for benchmark in (one for one in evaluation.benchmarks if by_chances[one.name]):
        for policy in policies:
            reader = exact_reader(evaluation.samples(policy), benchmark, evaluation.spec.data, grid)
            chances = reader.read(progress)
            passed[benchmark.name, policy.label] = np.stack(
                [worked_pass_at_k(chances.at(t), ks) for t in grid]
            )
    provenance = configured_provenance(evaluation.benchmarks, evaluation.spec)
    if not all(by_chances.values()):
        each = [_sampled(evaluation, policies, t, progress) for t in grid]
        for name, label in each[0].measured:
            if not by_chances[name]:
                passed[name, label] = np.stack(
                    [
                        pass_matrix([one.counts for one in found.measured[name, label]], ks)
                        for found in each
                    ]
                )
        samples = [one for found in each for one in found.provenance.samples or ()]
        provenance = replace(each[0].provenance, samples=tuple(samples))
    return OverTemperatures(passed, grid, grid.index(own), ks, by_chances, provenance)


def _sampled(
    evaluation: Evaluation, policies: Sequence[Policy], temperature: float, progress: Progress
) -> Evaluated:
    """Measure at another temperature. What is recorded with runs is of the configured one alone."""
    spec = evaluation.spec
    if temperature == spec.sampling.temperature:
        return evaluation.of(policies).carry_out(progress)
    progress.say(f"at temperature {temperature:g}")
    sampling = spec.sampling.model_copy(update={"temperature": temperature})
    other = replace(evaluation, spec=replace(spec, sampling=sampling))
    return other.of(policies).carry_out(progress, record=False)
