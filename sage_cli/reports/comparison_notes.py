"""Notes on a comparison: its intervals, crossing, support, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_cli.metrics import Comparison, Crossing, Difference, Support, pooled
from sage_cli.metrics.comparisons.support import different_seeds, grade_correlation
from sage_cli.metrics.design.precision import POWER
from sage_cli.reports.tables.table import Detail


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return notes on intervals, crossing, evaluation seeds and support."""
    names, difference = (comparison.a.label, comparison.b.label), comparison.difference
    notes = [interval_note(names, difference), *fragile_notes(difference, comparison.shown)]
    if comparison.crossing is not None:
        notes += crossing_notes(names, comparison.crossing, difference.ks)
    notes += map(Detail, seeds_notes(comparison))
    if comparison.support is not None:
        notes += support_notes(names, comparison.support)
    return notes


def crossing_notes(names: tuple[str, str], crossing: Crossing, ks: Sequence[int]) -> list[str]:
    """Return a sentence on where the curves cross, if that is established, and its estimates."""
    if not crossing.leader:
        return ["the curves are equal, or have one k or one problem only: no crossing to speak of"]
    leader, follower = names if crossing.leader == "a" else names[::-1]
    level, span = (
        f"{100 * crossing.confidence:g} % interval",
        f"{_end(crossing.low, ks)} to {_end(crossing.high, ks)}",
    )
    if crossing.established:
        found = f"{leader} leads at small k and {follower} at large k: they cross at k = {span}"
        advice = "; quote the interval, since the estimate of a late crossing is too low"
        found, estimates = f"{found} ({level})", [f"estimate {crossing.k:.3g}{advice}"]
    elif math.isnan(crossing.k):
        found = f"no crossing is established: {leader} is not below {follower} at any k"
        estimates = [f"{level} {span}"]
    else:
        found = "no crossing is established: the lead before it, or the one after it, may be chance"
        estimates = [f"estimate {crossing.k:.3g}, {level} {span}"]
    estimates.append(f"{crossing.share:.0%} of the resampled sets of problems cross")
    return [found, Detail(f"crossing: {'; '.join(estimates)}")]


def support_notes(names: tuple[str, str], support: Support) -> list[str]:
    """Return notes on problems that one side alone solved, beside the number by chance."""
    a, b = names
    test = "McNemar's" if support.paired else "Fisher's"
    return [
        f"solved by {a} alone: {len(support.gained)} problems, by {b} alone: {len(support.lost)} "
        f"({support.gained_by_chance:.1f} and {support.lost_by_chance:.1f} expected if both were "
        "equal)",
        Detail(
            f"beyond chance by {test} test after Holm, at {100 * support.confidence:g} %: "
            f"{len(support.surely_gained)} solved by {a} alone, {len(support.surely_lost)} by {b}"
        ),
        Detail(
            f"solved by both: {len(support.kept)}; by neither: {len(support.absent)} "
            f"(success probabilities below {support.visible:.2g} can go unseen)"
        ),
    ]


def reading_notes(differences: Sequence[Difference]) -> list[str]:
    """Return notes on which interval to quote and on what `detectable` says."""
    test = f"at {1 - differences[0].confidence:.0%} two-sided"
    notes = [
        f"detectable: a true difference of this size is found in {POWER:.0%} of repetitions, "
        f"{test}; a difference that is not significant and could be as large as detectable is "
        "undecided, not absent",
        Detail(
            "detectable is the distance from the difference to the end of its interval on the side "
            "of 0, and t(.80) times the standard error of that end (Bloom 1995); a lower bound "
            "where few problems differ so far; – : none, or unknown"
        ),
    ]
    if any(one.safe is not None for one in differences):
        notes = [
            "quote the interval beside the difference; safe is wider and holds even where rare "
            "problems lose much",
            *notes,
            Detail(
                "safe: Gaffke's bounds alone, which hold whatever the problems' differences are; "
                "the interval of the difference is narrower and errs where rare problems lose much"
            ),
        ]
    return notes


def interval_note(names: tuple[str, str], difference: Difference) -> str:
    """Return a note on what is random in the intervals: problems, or training seeds as well."""
    level = f"{100 * difference.confidence:g} % intervals over {difference.problems} problems"
    runs = difference.runs
    if runs == (1, 1):
        return (
            f"{level}, paired; about these two models, not their methods: another training seed "
            "gives another model"
        )
    if min(runs) > 1:
        return f"{level} and {runs[0]} against {runs[1]} training seeds, both random"
    several, single = names if runs[0] > 1 else names[::-1]
    seeds = f"{max(runs)} training seeds of {several}"
    return f"{level} and {seeds}, both random; {single} is this one model"


def _end(k: float, ks: Sequence[int]) -> str:
    if math.isinf(k):
        return f"below {ks[0]}" if k < 0 else f"beyond {ks[-1]}"
    return f"{k:.3g}"


def fragile_notes(difference: Difference, ks: Sequence[int]) -> list[str]:
    """Return a warning for the ks at which rare, unseen losses could undo the test's result."""
    fragile_K = zip(difference.ks, difference.fragile.tolist(), strict=True)
    fragile = [str(k) for k, is_fragile in fragile_K if is_fragile and k in ks]
    if not fragile:
        return []
    return [
        f"at k = {', '.join(fragile)} the paired test finds a difference, but the safe interval "
        "holds 0: problems that are lost altogether, so rare that few or none are among these "
        f"{difference.problems}, could undo it; more problems would tell"
    ]


def seeds_notes(comparison: Comparison) -> list[str]:
    """Return a note on shared random numbers of both sides, if that is known."""
    a, b = (pooled(side.runs[0]) for side in (comparison.a, comparison.b))
    if different_seeds(a, b):
        return [
            "the two sides have different evaluation seeds, so they don't share their random "
            "numbers: the sampling's part of a difference is about 1.2 times (an initial policy "
            "and its RL policy) to 2 times (two RL policies) that with equal seeds"
        ]
    correlation = grade_correlation(a, b)
    if math.isnan(correlation):
        return []
    return [
        "both sides share their random numbers sample by sample (equal evaluation seeds): within "
        f"a problem grades correlate {correlation:.2f}"
    ]


def unchecked_notes(names: Sequence[str]) -> list[str]:
    """Return a warning for models that are taken as seeds of a method, with settings unknown."""
    if not names:
        return []
    return [
        f"{', '.join(names)}: no settings are stored, so it isn't checked that the models of a "
        "side are training seeds of one method"
    ]
