"""pass@k of chosen policies on a benchmark, and paired differences of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.evaluation.evaluate import provenance_of
from sage_cli.metrics import curve, paired_difference, parse_ks
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals import Resampling
from sage_cli.reports.passk import CurveJson, Line, curve_json
from sage_cli.reports.provenance import SeedCounts
from sage_cli.view.stored_runs import Look, Measured, look_of
from sage_cli.view.stored_samples import Absent, Found, Shown

MOST_KS = 48
"""Values of k of a curve, evenly spaced on a logarithmic axis."""


class PolicyCurve(CurveJson):
    """A policy's curve, its look, and how many of its samples are graded."""

    look: Look
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
    """pass@k of `a` less that of `b`, paired by problem, with intervals and p-values."""

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
    powers = [1 << place for place in range(n.bit_length()) if 1 << place <= n]
    return tuple(sorted({*spaced, *powers, n}))


def passk_view(found: Found, typed: str | None) -> PasskView:
    """Return the curves of policies that have graded samples, at the same ks."""
    seeds = {one.label: measurements((one, columns)) for one, columns in found.shown}
    measured = [one for one, _ in found.shown]
    graded = {label: [seed.counts.n_P for seed in of] for label, of in seeds.items()}
    whole = [one for one in measured if min(int(n.min()) for n in graded[one.label]) > 0]
    missing: list[Absent] = [
        {"policy": one.label, "why": _why(graded[one.label])}
        for one in measured
        if one not in whole
    ]
    n = min((int(n.min()) for one in whole for n in graded[one.label]), default=0)
    ks = curve_points(n, typed) if n else ()
    confidence = measured[0].config.evaluation.confidence if measured else 0.95
    return {
        "benchmark": found.benchmark,
        "benchmarks": found.benchmarks,
        "k": list(ks),
        "confidence": confidence,
        "curves": [_curve(one, seeds[one.label], ks, found.looks) for one in whole],
        "absent": [*found.absent, *missing],
        "provenance": _provenance(whole),
    }


def difference_view(shown_a: Shown, shown_b: Shown, typed: str | None) -> DifferenceView:
    """Return pass@k of the first less the second. Raises StoreError if one lacks graded samples."""
    of_a, of_b = ([seed.counts for seed in measurements(one)] for one in (shown_a, shown_b))
    a, b = shown_a[0], shown_b[0]
    n = min(int(one.n_P.min()) for one in (*of_a, *of_b))
    if n == 0:
        raise StoreError(
            f"{a.label} or {b.label} has a problem without a graded sample on {a.benchmark.name}",
            f"`sage passk {a.label} {b.label}` samples and grades what is missing",
        )
    settings = a.config.evaluation
    found = paired_difference(
        of_a, of_b, curve_points(n, typed), Resampling(settings.confidence, settings.bootstrap)
    )
    return {
        "a": a.label,
        "b": b.label,
        "benchmark": a.benchmark.name,
        "k": list(found.ks),
        "mean": found.mean_K,
        "low": found.low_K,
        "high": found.high_K,
        "p": found.p_K,
        "confidence": found.confidence,
        "problems": found.problems,
    }


def measurements(shown: Shown) -> tuple[SeedCounts, ...]:
    """Return what is stored and graded of a policy on a benchmark, by evaluation seed."""
    one, columns = shown
    n, benchmark = one.config.evaluation.samples, one.benchmark.name
    numbers = range(len(columns.sets))
    return tuple(columns.measurement(one.label, benchmark, number, n) for number in numbers)


def _curve(
    one: Measured, seeds: tuple[SeedCounts, ...], ks: Sequence[int], looks: dict[str, Look]
) -> PolicyCurve:
    settings = one.config.evaluation
    counts = [seed.counts for seed in seeds]
    found = curve(counts, ks, Resampling(settings.confidence, settings.bootstrap))
    return {
        **curve_json(Line(one.label, one.benchmark.name, found, seeds)),
        "look": look_of(one.label, looks),
        "samples": settings.samples,
        "graded": int(sum(int(of.n_P.sum()) for of in counts)),
        "wanted": settings.samples * settings.seeds * len(one.benchmark.problems),
    }


def _provenance(measured: Sequence[Measured]) -> dict[str, object]:
    """Return the provenance of the curves: models, benchmarks, samples, graders."""
    if not measured:
        return {}
    samples = [one.samples for one in measured]
    return asdict(provenance_of(samples, [measured[0].benchmark], measured[0].config))


def _why(graded_SP: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]) -> str:
    graded = sum(int(n_P.sum()) for n_P in graded_SP)
    lacking = sum(int((n_P == 0).sum()) for n_P in graded_SP)
    if graded == 0:
        return "no sample is stored and graded under its own settings: `sage passk` samples them"
    return f"{lacking} problems have no graded sample yet"
