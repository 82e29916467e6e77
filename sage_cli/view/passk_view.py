"""pass@k of chosen policies on a benchmark, and paired differences of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.evaluation.evaluate import provenance_of
from sage_cli.metrics import curve, paired_difference, powers_up_to
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling
from sage_cli.reports.passk import CurveJson, Line, curve_json
from sage_cli.settings.k_values import parse_ks
from sage_cli.view.sample_columns import Absent, ShownPolicies, ShownPolicy
from sage_cli.view.stored_runs import LineStyle, MeasuredPolicy, look_of

MOST_KS = 48
"""Values of k of a curve, evenly spaced on a logarithmic axis."""


class PolicyCurve(CurveJson):
    """A policy's curve, its look, and how many of its samples are graded."""

    look: LineStyle
    samples: int
    graded: int
    wanted: int


class PasskView(TypedDict):
    """Curves on one benchmark at the same ks; `benchmarks` are those that can be chosen."""

    benchmark: str | None
    benchmarks: list[str]
    k: list[int]
    confidence: float
    curves: list[PolicyCurve]
    absent: list[Absent]
    provenance: dict[str, Any]


class DifferenceView(TypedDict):
    """pass@k of `a` minus that of `b`, paired by problem, with intervals and p-values."""

    a: str
    b: str
    benchmark: str
    k: list[int]
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    confidence: float
    problems: int


def curve_points(n: int, typed: str | None = None) -> tuple[int, ...]:
    """Return the ks of a curve of n samples: the typed ones, or 1 to n, denser where it bends.

    Raises ConfigurationError for typed ones that are none, or above n.
    """
    if typed:
        return parse_ks(typed, n)
    spaced = np.unique(np.round(np.geomspace(1, n, MOST_KS)).astype(int)).tolist()
    return tuple(sorted({*spaced, *powers_up_to(n), n}))


def passk_view(policies: ShownPolicies, typed: str | None) -> PasskView:
    """Return the curves of policies that have graded samples, at the same ks."""
    seeds = {pair[0].label: measurements(pair) for pair in policies.pairs}
    measured = [policy for policy, _ in policies.pairs]
    graded = {label: [seed.counts.n_P for seed in by_seed] for label, by_seed in seeds.items()}
    least = {label: min(int(n_P.min()) for n_P in by_seed) for label, by_seed in graded.items()}
    whole = [policy for policy in measured if least[policy.label] > 0]
    missing: list[Absent] = [
        {"policy": policy.label, "why": _why(graded[policy.label])}
        for policy in measured
        if policy not in whole
    ]
    n = min((least[policy.label] for policy in whole), default=0)
    ks = curve_points(n, typed) if n else ()
    confidence = measured[0].config.evaluation.confidence if measured else 0.95
    return {
        "benchmark": policies.benchmark,
        "benchmarks": policies.benchmarks,
        "k": list(ks),
        "confidence": confidence,
        "curves": [_curve(policy, seeds[policy.label], ks, policies.looks) for policy in whole],
        "absent": [*policies.absent, *missing],
        "provenance": _provenance(whole),
    }


def difference_view(
    shown_a: ShownPolicy, shown_b: ShownPolicy, typed: str | None
) -> DifferenceView:
    """Return pass@k of the first minus the second. Raises StoreError without graded samples."""
    counts_a, counts_b = (
        [seed.counts for seed in measurements(policy)] for policy in (shown_a, shown_b)
    )
    a, b = shown_a[0], shown_b[0]
    n = min(int(counts.n_P.min()) for counts in (*counts_a, *counts_b))
    if n == 0:
        raise StoreError(
            f"{a.label} or {b.label} has a problem without a graded sample on {a.benchmark.name}",
            f"`sage passk {a.label} {b.label}` samples and grades what is missing",
        )
    settings = a.config.evaluation
    resampling = Resampling(settings.confidence, settings.bootstrap)
    difference = paired_difference(counts_a, counts_b, curve_points(n, typed), resampling)
    return {
        "a": a.label,
        "b": b.label,
        "benchmark": a.benchmark.name,
        "k": list(difference.ks),
        "mean": difference.mean_K,
        "low": difference.low_K,
        "high": difference.high_K,
        "p": difference.p_K,
        "confidence": difference.confidence,
        "problems": difference.problems,
    }


def measurements(pair: ShownPolicy) -> tuple[SeedCounts, ...]:
    """Return what is stored and graded of a policy on a benchmark, by evaluation seed."""
    measured, columns = pair
    n, benchmark = measured.config.evaluation.samples, measured.benchmark.name
    numbers = range(len(columns.sets))
    return tuple(columns.measurement(measured.label, benchmark, number, n) for number in numbers)


def _curve(
    measured: MeasuredPolicy,
    seeds: tuple[SeedCounts, ...],
    ks: Sequence[int],
    looks: dict[str, LineStyle],
) -> PolicyCurve:
    settings = measured.config.evaluation
    counts = [seed.counts for seed in seeds]
    values = curve(counts, ks, Resampling(settings.confidence, settings.bootstrap))
    return {
        **curve_json(Line(measured.label, measured.benchmark.name, values, seeds)),
        "look": look_of(measured.label, looks),
        "samples": settings.samples,
        "graded": int(sum(int(seed.n_P.sum()) for seed in counts)),
        "wanted": settings.samples * settings.seeds * len(measured.benchmark.problems),
    }


def _provenance(measured: Sequence[MeasuredPolicy]) -> dict[str, object]:
    """Return the provenance of the curves: models, benchmarks, samples, graders."""
    if not measured:
        return {}
    samples = [policy.samples for policy in measured]
    return asdict(provenance_of(samples, [measured[0].benchmark], measured[0].config))


def _why(graded_SP: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]) -> str:
    graded = sum(int(n_P.sum()) for n_P in graded_SP)
    lacking = sum(int((n_P == 0).sum()) for n_P in graded_SP)
    if graded == 0:
        return "no sample is stored and graded under its own settings: `sage passk` samples them"
    return f"{lacking} problems have no graded sample yet"
