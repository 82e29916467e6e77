"""Support kept, lost and gained against a base (Def. 4.1; The Invisible Leash, Wu et al. 2025).

Beside it, how much probability trained policies leave to the base's correct texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from sage_cli.analysis.analysis import (
    Analysis,
    Inputs,
    Results,
    records,
    share_over_problems,
    wide_table,
)
from sage_cli.analysis.graded_samples import Answers, skeleton
from sage_cli.errors import DataError
from sage_cli.metrics import Support, compare_support
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.support import paired_grades
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.panels import draw_points
from sage_cli.reports.labels import by_method
from sage_cli.reports.tables import Cell, Row, Table, columns

FALLS = (2.0, 5.0, 10.0)
"""Nats by which a log-probability may have fallen."""
UNITS = ("problem", "working")
"""Probabilities of correct texts are summed over a problem or over texts of one skeleton."""
SURVIVAL_NOTES = (
    "how far the log-probability of the base's correct samples fell, at temperature 1. It is "
    "summed over the texts of a problem, or over its texts with one skeleton (working). Shown is "
    "the share that fell by more, mean over problems with a correct sample; two seeds of one "
    "method show how much falls by chance",
)
_NAMES = (
    "delta, kept, lost, lost by chance, surely lost, gained, gained by chance, surely gained, "
    "absent, SRR, NDR, SDS, NSCR"
)
NAN = float("nan")


def survival(inputs: Inputs) -> Results:
    """Return the shares that fell by more, mean over problems; none if no model has read texts."""
    results: dict[str, dict[str, dict[str, Estimate]]] = {}
    for benchmark, readings in inputs.readings.items():
        texts = right_texts(readings)
        for unit, (policy, other) in product(UNITS, _pairs(inputs.policies) if readings else ()):
            column, less = inputs.policies.index(policy), inputs.policies.index(other)
            logps = [added_up(of, unit) for of in texts.values()]
            changes = [logp_Z[:, column] - logp_Z[:, less] for logp_Z in logps]
            for fall in FALLS:
                item = results.setdefault(benchmark, {}).setdefault(f"{unit}: −{fall:g} nats", {})
                shares = [(change < -fall).mean() for change in changes]
                item[f"{policy} less {other}"] = share_over_problems(shares, inputs.options)
    return results


def right_texts(readings: Sequence[Answers]) -> dict[str, dict[str, FloatArray]]:
    """Return problem -> correct text -> its log-probability under each policy (Z,)."""
    texts: dict[str, dict[str, FloatArray]] = {}
    for rows in zip(*(reading.scored_rows() for reading in readings), strict=True):
        sample = rows[0][0]
        if sample.right:
            logp_Z = np.array([score.log_probability for _, score in rows])
            texts.setdefault(sample.problem.id, {})[sample.completion.text] = logp_Z
    return texts


def added_up(texts: Mapping[str, FloatArray], unit: str) -> FloatArray:
    """Return the log-probability of each unit's texts together, shape (units, Z)."""
    grouped: dict[str, list[FloatArray]] = {}
    for text, logp_Z in texts.items():
        grouped.setdefault(skeleton(text) if unit == "working" else "", []).append(logp_Z)
    return np.stack([np.logaddexp.reduce(logps) for logps in grouped.values()])


def _pairs(policies: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each run with the base, then the seeds of a method with each other."""
    base, *runs = policies
    yield from ((run, base) for run in runs)
    for seeds in by_method(runs).values():
        yield from ((second, first) for first, second in combinations(seeds, 2))


def support(inputs: Inputs) -> Document:
    """Return the support at each delta per run, and each problem's share of correct samples.

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
            table = Table(f"support of {title}", columns(_NAMES), tuple(map(Row, rows)))
            tables.append(table)
            sheet_rows += [Row((benchmark, run.policy, *cells)) for cells in rows]
            data.append(
                {
                    "benchmark": benchmark,
                    "run": run.policy,
                    "support": [_json(result) for result in supports],
                }
            )
    sheet = Table("support", columns(f"benchmark, run, {_NAMES}"), tuple(sheet_rows))
    shares = {
        benchmark: {run.policy: (base.right_shares, run.right_shares) for run in runs}
        for benchmark, (base, *runs) in inputs.answers.items()
    }
    base_label, survived = inputs.policies[0], survival(inputs)
    draw = partial(draw_points, shares, (f"share correct, {base_label}", "share correct"))
    read = f"correct texts of {base_label} whose log-probability fell by more"
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
    return Table("correct samples problem by problem", heads, rows)


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
        "a problem's correct samples falling on both at random (evaluation seeds differ, so that "
        "samples are independent); surely: Fisher's exact test"
    )


def _notes(inputs: Inputs) -> tuple[str, ...]:
    confidence = inputs.options.confidence
    fewest = min(int(answers.counts.n_P.min()) for answers in inputs.each())
    visible = thresholds(fewest, confidence)
    return (
        "a problem is in the support at delta where more than that share of the samples is "
        f"correct; with {fewest} samples per problem, a success probability below "
        f"{visible['exact']:.2g} may go unseen (-ln(zeta) / k, in The Invisible Leash: "
        f"{visible['paper']:.2g})",
        f"by chance: the number expected if base and run were one model, {_null(inputs)}, Holm "
        f"over all problems, at {confidence:.0%}",
        "SRR kept / (kept + lost), NDR gained / (kept + gained), SDS their harmonic mean, NSCR "
        "(gained - lost) / (kept + gained + lost): counts of these problems, without intervals",
    )


def support_ratios(support: Support) -> dict[str, float]:
    """Return the ratios from kept (P), gained (E) and lost (S) problems; NaN for 0 / 0.

    Support retention P / (P + S), novel discovery E / (P + E), their harmonic mean, and net
    change (E - S) / (P + E + S).
    """
    kept, gained, lost = len(support.kept), len(support.gained), len(support.lost)
    retention, novel = _ratio(kept, kept + lost), _ratio(gained, kept + gained)
    both = retention + novel
    return {
        "SRR": retention,
        "NDR": novel,
        "SDS": 2 * retention * novel / both if both > 0 else (0.0 if both == 0 else NAN),
        "NSCR": _ratio(gained - lost, kept + gained + lost),
    }


def thresholds(k: int, confidence: float) -> dict[str, float]:
    """Return the success probability that k samples detect with this confidence.

    With zeta = 1 - confidence: `exact` 1 - zeta^(1/k), and the paper's -ln(zeta) / k above it.
    """
    zeta = 1 - confidence
    return {"exact": 1 - zeta ** (1 / k), "paper": -math.log(zeta) / k}


def equal_k(answers: Iterable[Answers]) -> int:
    """Return the number of samples of each policy and problem.

    Raises DataError if they differ: more samples alone solve more problems.
    """
    numbers = {graded.policy: set(graded.counts.n_P.tolist()) for graded in answers}
    distinct = set().union(*numbers.values())
    if len(distinct) != 1:
        ranges = ", ".join(f"{policy} {_range(counted)}" for policy, counted in numbers.items())
        raise DataError(
            f"the policies have unequal numbers of samples per problem ({ranges}), and more "
            "samples solve more problems",
            "sample the same number for each: `sage passk BASE RUN... --n N`",
        )
    return int(distinct.pop())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else NAN


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


SUPPORT = Analysis(
    "support",
    "problems kept, lost and gained against the base at several delta, beyond chance (Def. 4.1)",
    support,
    base=True,
    options=frozenset({"delta", "survival"}),
    readers="all if survival",
)
