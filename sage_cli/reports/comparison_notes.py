"""Notes on a comparison: its intervals, crossing, support, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_cli.metrics import Comparison, Crossing, Difference, Support, pooled
from sage_cli.metrics.comparisons.pooled_null import different_seeds, grade_correlation


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return notes on intervals, crossing, evaluation seeds and support."""
    names, difference = (comparison.a.label, comparison.b.label), comparison.difference
    notes = [interval_note(names, difference), *fragile_notes(difference, comparison.shown)]
    if comparison.crossing is not None:
        notes.append(crossing_note(names, comparison.crossing, difference.ks))
    notes += seeds_notes(comparison)
    if comparison.support is not None:
        notes += support_notes(names, comparison.support)
    return notes


def crossing_note(names: tuple[str, str], crossing: Crossing, ks: Sequence[int]) -> str:
    """Return a sentence on where the curves cross, with an estimate only if it is established."""
    if not crossing.leader:
        return "the curves are equal, or have one k or one problem only: no crossing to speak of"
    leader, follower = names if crossing.leader == "a" else names[::-1]
    level = f"{100 * crossing.confidence:g} % interval"
    share = f"{crossing.share:.0%} of resamples cross"
    if crossing.established:
        return (
            f"{leader} leads at small k and {follower} beyond a k between {crossing.low:.3g} and "
            f"{crossing.high:.3g} ({level}; {share}; estimate {crossing.k:.3g}, which is too low "
            "where the interval is wide)"
        )
    why = "not sure that one leads before and the other after it"
    if math.isnan(crossing.k):
        why = f"{leader} is not below {follower} at any k"
    span = f"{level} {_end(crossing.low, ks)} to {_end(crossing.high, ks)}; {share}"
    return f"no crossing established: {why} ({span})"


def support_notes(names: tuple[str, str], support: Support) -> list[str]:
    """Return notes on problems that one side alone solved, beside the number by chance."""
    a, b = names
    test = "McNemar's" if support.paired else "Fisher's"
    return [
        f"solved by {a} alone: {len(support.gained)} problems, {support.gained_by_chance:.1f} "
        f"expected if both were equal; beyond chance by {test} test after Holm, at "
        f"{100 * support.confidence:g} %: {len(support.surely_gained)}",
        f"solved by {b} alone: {len(support.lost)}, {support.lost_by_chance:.1f} expected; "
        f"beyond chance: {len(support.surely_lost)}",
        f"solved by both: {len(support.kept)}; by neither: {len(support.absent)} "
        f"(success probabilities below {support.visible:.2g} can go unseen)",
    ]


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
            "the two sides have different evaluation seeds, so that they don't share their random "
            "numbers: what sampling adds to a difference is about 1.2 times (a base and its RL "
            "policy) to 2 times (two RL policies of a base) what it is with equal seeds"
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
