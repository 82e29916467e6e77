"""Two models or two methods compared: a table of differences and what they mean in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_cli.metrics import Crossing, Difference, Support
from sage_cli.reports.table import Column, Measure, Row, Table


def comparison_table(
    benchmark: str,
    names: tuple[str, str],
    difference: Difference,
    ks: Sequence[int],
    *,
    means: Sequence[Sequence[float]],
    crossing: Crossing | None = None,
    support: Support | None = None,
) -> Table:
    """A row per k of `ks`: both means (`means`, a pair per k of the difference), A less B, p."""
    a, b = names
    columns = (Column("k"), Column(a), Column(b), Column("difference"), Column("p"))
    rows = []
    for place, k in enumerate(difference.ks):
        if k in ks:
            gap = Measure(
                float(difference.mean_K[place]),
                interval=(float(difference.low_K[place]), float(difference.high_K[place])),
                signed=True,
            )
            pair = (Measure(value) for value in means[place])
            rows.append(Row((k, *pair, gap, Measure(float(difference.p_K[place]), digits=4))))
    notes = [_interval_note(difference)]
    if crossing is not None:
        notes.append(crossing_note(names, crossing, difference.ks))
    if support is not None:
        notes += support_notes(names, support)
    return Table(f"{a} against {b} on {benchmark}", columns, tuple(rows), tuple(notes))


def crossing_note(names: tuple[str, str], crossing: Crossing, ks: Sequence[int]) -> str:
    """Where the curves cross, in a sentence."""
    if not crossing.leader:
        return "the curves are equal, or have one k or one problem only: no crossing to speak of"
    leader = names[0] if crossing.leader == "a" else names[1]
    follower = names[1] if crossing.leader == "a" else names[0]
    span = (
        f"{100 * crossing.confidence:g} % interval {_end(crossing.low, ks)} to "
        f"{_end(crossing.high, ks)}; {crossing.share:.0%} of resamples cross"
    )
    if math.isnan(crossing.k):
        return f"{leader} leads up to k = {ks[-1]}, the curves don't cross ({span})"
    return f"{leader} leads up to k = {crossing.k:.3g}, {follower} beyond ({span})"


def support_notes(names: tuple[str, str], support: Support) -> list[str]:
    """Problems that A solved and B never did, and the reverse, against what chance would show."""
    a, b = names
    return [
        f"solved by {a} alone: {len(support.gained)} problems, {support.gained_by_chance:.1f} "
        f"expected if both were equal; sure at {100 * support.confidence:g} %: "
        f"{len(support.surely_gained)}",
        f"solved by {b} alone: {len(support.lost)}, {support.lost_by_chance:.1f} expected; "
        f"sure: {len(support.surely_lost)}",
        f"solved by both: {len(support.kept)}; by neither: {len(support.absent)} "
        f"(success probabilities below {support.visible:.2g} can go unseen)",
    ]


def _interval_note(difference: Difference) -> str:
    level = f"{100 * difference.confidence:g} % intervals over {difference.problems} problems"
    runs_a, runs_b = difference.runs
    if difference.runs == (1, 1):
        return f"{level}, paired; p by flipping signs; about these two models, not their methods"
    return f"{level} and {runs_a} against {runs_b} training seeds, both random"


def _end(k: float, ks: Sequence[int]) -> str:
    if math.isinf(k):
        return f"below {ks[0]}" if k < 0 else f"beyond {ks[-1]}"
    return f"{k:.3g}"
