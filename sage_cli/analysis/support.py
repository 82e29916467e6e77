"""Support kept, lost and gained against a base (Def. 4.1; The Invisible Leash, Wu et al. 2025)."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.invisible_leash import (
    entropies_of,
    equal_k,
    support_ratios,
    thresholds,
)
from sage_cli.analysis.material import Material
from sage_cli.analysis.pictures import strips
from sage_cli.analysis.tables import records, wide_table
from sage_cli.metrics import Support, compare_support
from sage_cli.metrics.comparisons.pooled_null import paired_grades
from sage_cli.metrics.comparisons.support import OFTEN, STATES, Transitions, transitions
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record
from sage_cli.reports.table import Column, Measure, Row, Table


class SupportJson(TypedDict):
    """Problems of a run by what became of them at a delta, and The Invisible Leash's ratios.

    `paired`: by chance and surely are from verdicts paired by their random numbers.
    """

    delta: float
    gained: list[str]
    lost: list[str]
    kept: list[str]
    absent: list[str]
    surely_gained: list[str]
    surely_lost: list[str]
    gained_by_chance: float
    lost_by_chance: float
    paired: bool
    visible: float
    SRR: float
    NDR: float
    SDS: float
    NSCR: float


class TransitionsJson(TypedDict):
    """From a base's state (rows) to the run's (columns): problems seen, and expected by chance."""

    states: tuple[str, ...]
    seen: list[list[float]]
    by_chance: list[list[float]]


class RunSupport(TypedDict):
    """A run against the base on a benchmark, at each delta."""

    benchmark: str
    run: str
    support: list[SupportJson]
    transitions: TransitionsJson


class SupportData(TypedDict):
    """Runs against a base; `thresholds` says by benchmark what k samples show."""

    base: str
    runs: list[RunSupport]
    thresholds: dict[str, dict[str, float]]
    entropies: list[Record]


def support(material: Material) -> Document:
    """A table of the support at each delta per run, one of transitions, and a strip per policy.

    Raises DataError where the policies have unequal numbers of samples.
    """
    tables, sheet_rows, seen_at = [], [], {}
    data: list[RunSupport] = []
    for benchmark, answers in material.answers.items():
        base, *runs = answers
        k = equal_k(answers)
        seen_at[benchmark] = {"k": k, **thresholds(k, material.asked.confidence)}
        for run in runs:
            found = [
                compare_support(
                    base.counts, run.counts, confidence=material.asked.confidence, delta=delta
                )
                for delta in material.asked.deltas
            ]
            moved = transitions(base.counts, run.counts)
            title = f"{run.policy} against {base.policy} on {benchmark}"
            tables += [_support_table(title, found), _transition_table(title, moved)]
            sheet_rows += [Row((benchmark, run.policy, *_cells(one))) for one in found]
            data.append(
                {"benchmark": benchmark, "run": run.policy,
                 "support": [_json(one) for one in found],
                 "transitions": {"states": STATES, "seen": moved.seen.tolist(),
                                 "by_chance": moved.by_chance.tolist()}}
            )  # fmt: skip
    sheet = Table("support", tuple(map(Column, ("benchmark", "run", *NAMES))), tuple(sheet_rows))
    shares = {
        benchmark: {one.policy: one.counts.c_P / one.counts.n_P for one in answers}
        for benchmark, answers in material.answers.items()
    }
    entropy = entropies_of(material)
    return Document(
        name="support",
        title=f"support against {material.policies[0]}",
        provenance=material.provenance,
        data=SupportData(base=material.policies[0], runs=data, thresholds=seen_at,
                         entropies=records("entropy", entropy, "mean")),
        tables=(*tables, wide_table("entropies, mean over problems", "entropy", entropy)),
        sheets={"support": sheet, "support-problems": _problems(material)},
        figures=(strips("support", shares),),
        notes=_notes(material),
    )  # fmt: skip


NAMES = (
    "delta", "kept", "lost", "lost by chance", "surely lost", "gained", "gained by chance",
    "surely gained", "absent", "SRR", "NDR", "SDS", "NSCR",
)  # fmt: skip


def _cells(found: Support) -> tuple[Any, ...]:
    ratios = support_ratios(found)
    return (
        Measure(found.delta, digits=4), len(found.kept),
        len(found.lost), Measure(found.lost_by_chance, digits=1), len(found.surely_lost),
        len(found.gained), Measure(found.gained_by_chance, digits=1), len(found.surely_gained),
        len(found.absent), Measure(ratios["SRR"]), Measure(ratios["NDR"]), Measure(ratios["SDS"]),
        Measure(ratios["NSCR"]),
    )  # fmt: skip


def _support_table(title: str, found: list[Support]) -> Table:
    return Table(
        f"support of {title}", tuple(map(Column, NAMES)), tuple(Row(_cells(one)) for one in found)
    )


def _transition_table(title: str, moved: Transitions) -> Table:
    """`12 (9.8)`: seen, and in brackets what chance alone would show."""
    columns = (Column("base"), *(Column(state, "then") for state in STATES))
    rows = tuple(
        Row((state, *(f"{int(moved.seen[i, j])} ({moved.by_chance[i, j]:.1f})" for j in range(3))))
        for i, state in enumerate(STATES)
    )
    return Table(f"from never to often, {title}", columns, rows)


def _problems(material: Material) -> Table:
    columns = tuple(map(Column, ("benchmark", "problem", "policy", "n", "right")))
    rows = tuple(
        Row((benchmark, id_, one.policy, int(n), int(c)))
        for benchmark, answers in material.answers.items()
        for one in answers
        for id_, n, c in zip(one.counts.problem_ids, one.counts.n_P, one.counts.c_P, strict=True)
    )
    return Table("right samples problem by problem", columns, rows)


def _json(found: Support) -> SupportJson:
    return {
        "delta": found.delta,
        "gained": list(found.gained),
        "lost": list(found.lost),
        "kept": list(found.kept),
        "absent": list(found.absent),
        "surely_gained": list(found.surely_gained),
        "surely_lost": list(found.surely_lost),
        "gained_by_chance": found.gained_by_chance,
        "lost_by_chance": found.lost_by_chance,
        "paired": found.paired,
        "visible": found.visible,
        **support_ratios(found),
    }


def _null(material: Material) -> str:
    """How chance is reckoned, and the test that belongs to it."""
    pairs = [
        paired_grades(base.counts, run.counts)
        for base, *runs in material.answers.values()
        for run in runs
    ]
    if all(pair is not None for pair in pairs):
        return (
            "its two verdicts on one sample swapped at random (both policies were sampled with the "
            "same evaluation seeds, so that sample i shares its random numbers); surely: "
            "McNemar's exact test"
        )
    return (
        "all right samples of a problem falling among both as from one urn (evaluation seeds "
        "differ, so that samples are independent); surely: Fisher's exact test"
    )


def _notes(material: Material) -> tuple[str, ...]:
    confidence = material.asked.confidence
    fewest = min(int(one.counts.n_P.min()) for one in material.each())
    visible = thresholds(fewest, confidence)
    return (
        "a problem is in the support at delta where more than that share of the samples is right; "
        f"with {fewest} samples a problem, a success probability below {visible['exact']:.2g} may "
        f"go unseen (-ln(zeta) / k, as The Invisible Leash has it: {visible['paper']:.2g})",
        f"by chance: the number expected if base and run were one model, {_null(material)}, Holm "
        f"over all problems, at {confidence:.0%}",
        "SRR kept / (kept + lost), NDR gained / (kept + gained), SDS their harmonic mean, NSCR "
        "(gained - lost) / (kept + gained + lost): counts of these problems, without intervals",
        f"{OFTEN}: in at least half of the samples; in brackets what chance alone would show",
        "answer entropy: of the shares of a problem's different answers, none being one more; low "
        "by about (answers - 1) / 2n; token entropy stands there for policies that `sage analyze "
        "entropy` has had read their samples",
    )


SUPPORT = Analysis(
    "support",
    "problems kept, lost and gained against the base at several delta, beyond chance (Def. 4.1)",
    support,
    SupportData,
    base=True,
    reader="itself, where kept",
    options=frozenset({"delta"}),
)
