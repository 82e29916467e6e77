"""Support kept, lost and gained against a base (Def. 4.1; The Invisible Leash, Wu et al. 2025)."""

from __future__ import annotations

from functools import partial
from typing import Any

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.measures.entropy import (
    equal_k,
    support_ratios,
    thresholds,
)
from sage_cli.analysis.measures.survival import SURVIVAL_NOTES, survival
from sage_cli.analysis.policy_tables import records, wide_table
from sage_cli.metrics import Support, compare_support
from sage_cli.metrics.transitions import paired_grades
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_points
from sage_cli.reports.tables import Cell, Estimate, Row, Table, columns

NAMES = (
    "delta, kept, lost, lost by chance, surely lost, gained, gained by chance, surely gained, "
    "absent, SRR, NDR, SDS, NSCR"
)


def support(inputs: Inputs) -> Document:
    """Return the support at each delta per run, and each problem's share of right samples.

    Raises DataError if the policies have unequal numbers of samples.
    """
    confidence = inputs.options.confidence
    tables, sheet_rows, detected = [], [], {}
    data: list[dict[str, Any]] = []
    for benchmark, answers in inputs.answers.items():
        base, *runs = answers
        k = equal_k(answers)
        detected[benchmark] = {"k": k, **thresholds(k, confidence)}
        for run in runs:
            supports = [
                compare_support(base.counts, run.counts, confidence=confidence, delta=delta)
                for delta in inputs.options.deltas
            ]
            title = f"{run.policy} against {base.policy} on {benchmark}"
            rows = [_cells(result) for result in supports]
            table = Table(f"support of {title}", columns(NAMES), tuple(map(Row, rows)))
            tables.append(table)
            sheet_rows += [Row((benchmark, run.policy, *cells)) for cells in rows]
            data.append(
                {
                    "benchmark": benchmark,
                    "run": run.policy,
                    "support": [_json(result) for result in supports],
                }
            )
    sheet = Table("support", columns(f"benchmark, run, {NAMES}"), tuple(sheet_rows))
    shares = {
        benchmark: {run.policy: (base.right_shares, run.right_shares) for run in runs}
        for benchmark, (base, *runs) in inputs.answers.items()
    }
    base_label, survived = inputs.policies[0], survival(inputs)
    draw = partial(draw_points, shares, (f"share right, {base_label}", "share right"))
    read = f"right texts of {base_label} that fell by more"
    return Document(
        name="support",
        title=f"support against {base_label}",
        data={
            "base": base_label,
            "runs": data,
            "thresholds": detected,
            "survival": records("fall", survived, "share"),
        },
        tables=(
            *tables,
            *([wide_table(read, "fall", survived, SURVIVAL_NOTES)] if survived else ()),
        ),
        sheets={"support": sheet, "support-problems": _problems(inputs)},
        figures=(Figure("support", draw),),
        notes=_notes(inputs),
    )


def _cells(support: Support) -> tuple[Cell, ...]:
    lost_by_chance = Estimate(support.lost_by_chance, digits=1)
    gained_by_chance = Estimate(support.gained_by_chance, digits=1)
    return (
        *(Estimate(support.delta, digits=4), len(support.kept)),
        *(len(support.lost), lost_by_chance, len(support.surely_lost)),
        *(len(support.gained), gained_by_chance, len(support.surely_gained)),
        len(support.absent),
        *(Estimate(float(ratio)) for ratio in support_ratios(support).values()),
    )


def _problems(inputs: Inputs) -> Table:
    rows = tuple(
        Row((graded.benchmark.name, id_, graded.policy, int(n), int(c)))
        for graded in inputs.each()
        for id_, n, c in zip(
            graded.counts.problem_ids, graded.counts.n_P, graded.counts.c_P, strict=True
        )
    )
    heads = columns("benchmark, problem, policy, n, right")
    return Table("right samples problem by problem", heads, rows)


def _json(support: Support) -> dict[str, Any]:
    """Return the problems that are kept, lost or gained at a delta, and the paper's ratios."""
    fields = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in vars(support).items()
    }
    del fields["confidence"]
    return {**fields, **support_ratios(support)}


def _null(inputs: Inputs) -> str:
    """Return how chance is computed, and the test that belongs to it."""
    pairs = [
        paired_grades(base.counts, run.counts)
        for base, *runs in inputs.answers.values()
        for run in runs
    ]
    if all(pair is not None for pair in pairs):
        return (
            "its two grades on one sample swapped at random (both policies were sampled with the "
            "same evaluation seeds, so that sample i shares its random numbers); surely: "
            "McNemar's exact test"
        )
    return (
        "all right samples of a problem falling among both as from one urn (evaluation seeds "
        "differ, so that samples are independent); surely: Fisher's exact test"
    )


def _notes(inputs: Inputs) -> tuple[str, ...]:
    confidence = inputs.options.confidence
    fewest = min(int(answers.counts.n_P.min()) for answers in inputs.each())
    visible = thresholds(fewest, confidence)
    return (
        "a problem is in the support at delta where more than that share of the samples is right; "
        f"with {fewest} samples a problem, a success probability below {visible['exact']:.2g} may "
        f"go unseen (-ln(zeta) / k, as The Invisible Leash has it: {visible['paper']:.2g})",
        f"by chance: the number expected if base and run were one model, {_null(inputs)}, Holm "
        f"over all problems, at {confidence:.0%}",
        "SRR kept / (kept + lost), NDR gained / (kept + gained), SDS their harmonic mean, NSCR "
        "(gained - lost) / (kept + gained + lost): counts of these problems, without intervals",
    )


SUPPORT = Analysis(
    "support",
    "problems kept, lost and gained against the base at several delta, beyond chance (Def. 4.1)",
    support,
    base=True,
    options=frozenset({"delta", "survival"}),
    readers="all if survival",
)
