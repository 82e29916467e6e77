"""The reports of pass@k: curves, policies over temperatures, and a table of benchmarks and k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import Counts, Curve
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    best_temperatures,
    equal_accuracy,
)
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, gaffke, pass_matrix
from sage_cli.reports.document import Document, Figure, Provenance, grade_notes, record
from sage_cli.reports.figures import draw_curves, draw_points
from sage_cli.reports.published import evaluation_tables, published, published_scores
from sage_cli.reports.tables import (
    Column,
    Estimate,
    Record,
    Row,
    Scores,
    Table,
    columns,
    p_value,
    to_records,
)


@dataclass(frozen=True)
class Line:
    """A policy's curve on a benchmark with its measurements, one for each evaluation seed.

    Curves from files of counts have no measurements.
    """

    policy: str
    benchmark: str
    curve: Curve
    measured: tuple[SeedCounts, ...] = ()


CurveJson = TypedDict(
    "CurveJson",
    {
        "policy": str,
        "benchmark": str,
        "pass@k": FloatArray,
        "low": FloatArray,
        "high": FloatArray,
        "seeds": list[dict[str, Any]],
    },
)
"""pass@k with its band, a value for each k; `seeds` is empty for files of counts."""


def passk_document(
    lines: Sequence[Line], provenance: Provenance, shown: Sequence[int] | None = None
) -> Document:
    """Return the report of curves with the same ks: a table per benchmark, and a picture.

    Tables show the powers of two among `shown`, by default all ks; picture, CSV and JSON every k.
    """
    panels: dict[str, dict[str, Curve]] = {}
    for line in lines:
        panels.setdefault(line.benchmark, {})[line.policy] = line.curve
    ks = lines[0].curve.ks
    measured = [counted for line in lines for counted in line.measured]
    return Document(
        name="passk",
        title=f"pass@k on {', '.join(panels)}",
        provenance=provenance,
        data={
            "k": list(ks),
            "confidence": lines[0].curve.confidence,
            "curves": [*map(curve_json, lines)],
        },
        tables=tuple(
            passk_table(benchmark, curves, powers_of_two(ks if shown is None else shown))
            for benchmark, curves in panels.items()
        ),
        sheets={"passk": _every_k(lines)},
        figures=(Figure("passk", partial(draw_curves, panels)),),
        notes=(*grade_notes(measured), *_unsure(measured, max(ks if shown is None else shown))),
    )


def _unsure(measured: Sequence[SeedCounts], k: int) -> tuple[str, ...]:
    """Return a note if `k` is above half of a problem's samples: its error can't be estimated."""
    n = min((int(counted.counts.n_P.min()) for counted in measured), default=2 * k)
    if n < 2:  # one sample has a pass@1 alone, which has an interval
        return ()
    return (f"do not quote pass@k for k above {n // 2}, which is half of n",) if 2 * k > n else ()


def whole_sample_words(n: int) -> str:
    """Return what is to be said of k = n samples."""
    return (
        f"at k = n = {n} each problem counts as 0 or 1: to quote it, draw at least {2 * n} samples"
    )


def passk_table(benchmark: str, curves: Mapping[str, Curve], ks: Sequence[int]) -> Table:
    """Return a row per k of `ks`, a column per policy: pass@k with its band."""
    first = next(iter(curves.values()))
    heads = (Column("k"), *(Column("pass@k", policy) for policy in curves))
    rows = tuple(Row((k, *(value_at(curve, k) for curve in curves.values()))) for k in ks)
    problems = sorted({curve.problems for curve in curves.values()})
    counted = " or ".join(map(str, problems))
    note = f"pointwise {100 * first.confidence:g}% bands over {counted} problems"
    note = note if problems != [1] else "there are no bands, because there is only one problem"
    return Table(f"pass@k on {benchmark}", heads, rows, (note,))


def powers_of_two(ks: Sequence[int]) -> list[int]:
    """Return ks without those next to others that are not powers of two; all if none is left.

    `1..256` becomes nine ks, `1,10,100` stays.
    """
    listed = {*ks}  # once: a file may have 100,000 samples of a problem, and as many ks
    return [k for k in ks if k & (k - 1) == 0 or not {k - 1, k + 1} & listed] or list(ks)


def curve_json(line: Line) -> CurveJson:
    """Return a curve and its measurements as JSON data."""
    return {
        "policy": line.policy,
        "benchmark": line.benchmark,
        "pass@k": line.curve.mean_K,
        "low": line.curve.low_K,
        "high": line.curve.high_K,
        "seeds": [*map(record, line.measured)],
    }


def value_at(curve: Curve, k: int) -> Estimate:
    """Return pass@k with its interval."""
    mean, low, high = curve.at(k)
    return Estimate(mean, interval=(low, high))


def _every_k(lines: Sequence[Line]) -> Table:
    # a curve may have 100,000 ks: it is walked along, because `at` searches for each
    rows = tuple(
        Row((line.policy, line.benchmark, k, *map(Estimate, values)))
        for line in lines
        for k, *values in zip(
            line.curve.ks,
            line.curve.mean_K.tolist(),
            line.curve.low_K.tolist(),
            line.curve.high_K.tolist(),
            strict=True,
        )
    )
    return Table("pass@k", columns("policy, benchmark, k, pass@k, low, high"), rows)


OWN, INITIAL, BEST = "the smaller of both", "the initial policy's", "each at its best T"
"""The pass@1 at which two policies are compared: three targets, side by side."""

_Policies = Mapping[str, FloatArray]
"""pass@k of one benchmark by policy, each (T, P, K)."""


@dataclass(frozen=True, eq=False)
class OverTemperatures:
    """pass@k by (benchmark, policy's label), each (T, P, K): T ascending temperatures.

    `at` is the place of the evaluation's temperature, whose pass@1 counts. `initial_P` has the
    pass@1 of their initial policy there on each problem, by benchmark, where they share one.
    """

    passed: Mapping[tuple[str, str], FloatArray]
    temperatures: tuple[float, ...]
    at: int
    ks: tuple[int, ...]
    provenance: Provenance
    initial_P: Mapping[str, FloatArray] = field(default_factory=dict)


def over_temperatures_document(measured: OverTemperatures, resampling: Resampling) -> Document:
    """Return the report of policies over temperatures, with intervals over problems."""
    by_benchmark: dict[str, dict[str, FloatArray]] = {}
    for (benchmark, policy), passed_TPK in measured.passed.items():
        by_benchmark.setdefault(benchmark, {})[policy] = passed_TPK
    benchmarks = by_benchmark.items()
    values = {name: _values(name, policies, measured, resampling) for name, policies in benchmarks}
    best = {name: _best(name, policies, measured) for name, policies in benchmarks}
    equal = {
        (name, *pair): table
        for name, policies in benchmarks
        for pair, table in _equal(name, policies, measured, resampling).items()
    }
    most = max(measured.ks)
    ends = [measured.ks.index(1), measured.ks.index(most)]
    curves = {
        name: {policy: passed.mean(axis=1)[:, ends].T for policy, passed in policies.items()}
        for name, policies in benchmarks
    }
    draw = partial(draw_points, curves, ("pass@1", f"pass@{most}"), joined=True)
    data: dict[str, Any] = {
        "values": _records(values),
        "best": _records(best),
        "equal_accuracy": [
            {"benchmark": name, "policy": policy, "less": other, **record}
            for (name, policy, other), table in equal.items()
            for record in to_records(table)
        ],
        "temperatures": list(measured.temperatures),
        "k": list(measured.ks),
    }
    return Document(
        name="temperatures",
        title="pass@k over temperatures",
        data=data,
        provenance=measured.provenance,
        tables=(*values.values(), *best.values(), *equal.values()),
        figures=(Figure("temperatures", draw),),
        notes=_notes(resampling.confidence, measured.temperatures[measured.at]),
    )


def _records(tables: Mapping[str, Table]) -> list[Record]:
    """Return the rows of each benchmark's table, with the benchmark's name."""
    return [
        {"benchmark": name, **record}
        for name, table in tables.items()
        for record in to_records(table)
    ]


def _values(
    benchmark: str, policies: _Policies, measured: OverTemperatures, resampling: Resampling
) -> Table:
    heads = (*columns("policy, T"), *(Column(f"pass@{k}") for k in measured.ks))
    rows = []
    for policy, passed_TPK in policies.items():
        for temperature, passed_PK in zip(measured.temperatures, passed_TPK, strict=True):
            band = gaffke(passed_PK, (0, 1), resampling)
            ends = zip(passed_PK.mean(axis=0), band.low_K, band.high_K, strict=True)
            cells = (Estimate(float(m), interval=(float(a), float(b))) for m, a, b in ends)
            rows.append(Row((policy, Estimate(temperature, digits=2), *cells), section=policy))
    return Table(f"pass@k on {benchmark}, by temperature", heads, tuple(rows))


def _best(benchmark: str, policies: _Policies, measured: OverTemperatures) -> Table:
    rows = []
    for policy, passed_TPK in policies.items():
        mean_TK = passed_TPK.mean(axis=1)
        for column, k in enumerate(measured.ks):
            best = int(mean_TK[:, column].argmax())
            value = Estimate(float(mean_TK[best, column]))
            cells = policy, k, Estimate(measured.temperatures[best], digits=2), value
            rows.append(Row(cells, section=policy))
    heads = columns("policy, k, best T, pass@k there")
    return Table(f"each policy at its best temperature on {benchmark}", heads, tuple(rows))


def _equal(
    benchmark: str, policies: _Policies, measured: OverTemperatures, resampling: Resampling
) -> dict[tuple[str, str], Table]:
    """Return by pair of policies a table of differences, a row for each target and k."""
    temperatures, at = measured.temperatures, measured.at
    if at == len(temperatures) - 1 or len(policies) < 2:
        return {}
    heads = columns("target, k, pass@1, difference, p, T, other T, unreached")
    initial_P = measured.initial_P.get(benchmark)
    *others, (last, last_TPK) = policies.items()
    tables = {}
    for policy, passed_TPK in others:
        rows = []
        for k in (k for k in measured.ks if k > 1):
            first, second = (_points(p_TPK, measured.ks, k) for p_TPK in (passed_TPK, last_TPK))
            both = first, second, temperatures
            gaps = {OWN: equal_accuracy(*both, at, resampling)}
            if initial_P is not None:
                gaps[INITIAL] = equal_accuracy(*both, at, resampling, initial_P)
            gaps[BEST] = best_temperatures(*both, resampling)
            rows += [Row((target, k, *gap_cells(gap))) for target, gap in gaps.items()]
        rows.sort(key=lambda row: (OWN, INITIAL, BEST).index(row.cells[0]))
        title = f"{policy} − {last} on {benchmark}, at equal pass@1"
        tables[policy, last] = Table(title, heads, tuple(rows))
    return tables


def _points(passed_TPK: FloatArray, ks: Sequence[int], k: int) -> Points:
    """Return pass@1 and pass@k of each problem at each temperature."""
    return Points(passed_TPK[:, :, ks.index(1)].T, passed_TPK[:, :, ks.index(k)].T)


def gap_cells(gap: EqualAccuracy | NotReached) -> tuple[Estimate | str, ...]:
    """Return pass@1, difference, p, both places, and the share of unreached resamples."""
    if isinstance(gap, NotReached):
        return Estimate(nan), gap.reason, *[Estimate(nan)] * 4
    return (
        Estimate(gap.accuracy),
        Estimate(gap.difference, interval=(gap.low, gap.high), signed=True),
        p_value(gap.p),
        *(Estimate(t, digits=2) for t in (gap.at, gap.other_at)),
        Estimate(gap.unreached / gap.resamples, digits=3),
    )


def _notes(confidence: float, at: float) -> tuple[str, ...]:
    return (
        f"{100 * confidence:g}% intervals over problems; they describe these models",
        f"{OWN}: the policy that is correct more often at T {at:g} is compared at a higher "
        "temperature, at which its pass@1 equals the other's; pass@k is interpolated there",
        f"{INITIAL}: both are compared at the temperatures where they reach its pass@1 at T "
        f"{at:g}; {BEST}: only pass@k counts, and the two have different pass@1. Report all "
        "targets",
        "unreached: the share of resampled sets of problems on which no temperature reaches that "
        "pass@1",
        "the best temperature was chosen on these problems, so its value is slightly too high",
    )


_AVERAGE = "average"
PROTOCOL = "paper's protocol"


def evaluation_document(
    measured: Mapping[tuple[str, str], Sequence[SeedCounts]],
    ks: Sequence[int],
    provenance: Provenance,
    paper: str | None = None,
    k_samples: Mapping[tuple[str, str], Mapping[int, Sequence[Counts]]] | None = None,
) -> Document:
    """Return the report of (benchmark, policy) -> a measurement per evaluation seed.

    `paper` names a published table to add. `k_samples` has for each k the counts of k samples per
    problem, one for each seed: their pass@k is what the paper prints, in rows of its own. Raises
    ConfigurationError if the paper has no such table.
    """
    counts: dict[str, dict[str, list[Counts]]] = {}
    for (benchmark, policy), seeds in measured.items():
        counts.setdefault(policy, {})[benchmark] = [counted.counts for counted in seeds]
    measurements = [counted for seeds in measured.values() for counted in seeds]
    notes: list[str] = []
    results = {policy: score(by_benchmark, ks) for policy, by_benchmark in counts.items()}
    beside: dict[str, dict[str, Scores]] = {}
    if k_samples:
        beside[PROTOCOL] = {
            f"{policy} ({PROTOCOL})": _scores(
                {name: _means_of_k(k_samples[name, policy], ks) for name in names}, ks
            )
            for policy, names in counts.items()
        }
        notes += _protocol_notes(measurements, ks)
    if paper:
        scores = published_scores(paper)
        model = evaluation_tables()[paper]
        beside["paper"] = {f"{name} (paper, {model})": by_k for name, by_k in scores.items()}
        notes.append(f"(paper): {paper} of {published()['source']}")
    table = evaluation_table("pass@k", results, beside, notes)
    data: dict[str, Any] = {
        "k": list(ks),
        "rows": to_records(table),
        "measurements": [
            {
                "benchmark": benchmark,
                "policy": policy,
                "seeds": [record(counted) for counted in seeds],
            }
            for (benchmark, policy), seeds in measured.items()
        ],
    }
    return Document(
        name="eval",
        title="pass@k",
        provenance=provenance,
        data=data,
        tables=(table,),
        sheets={"eval": table},
        notes=grade_notes(measurements),
    )


def score(seeds_by_benchmark: Mapping[str, Sequence[Counts]], ks: Sequence[int]) -> Scores:
    """Return mean pass@k over problems as mean and standard deviation over evaluation seeds.

    Several benchmarks with equal numbers of seeds have an unweighted average, with the deviation
    of the seeds' averages.
    """
    return _scores({name: _means(seeds, ks) for name, seeds in seeds_by_benchmark.items()}, ks)


def _scores(means_by_benchmark: Mapping[str, FloatArray], ks: Sequence[int]) -> Scores:
    """Return the same from the seeds' means, of shape (S, K)."""
    means = dict(means_by_benchmark)
    if len(means) > 1 and len({len(means_SK) for means_SK in means.values()}) == 1:
        means[_AVERAGE] = np.mean(list(means.values()), axis=0)
    scores: dict[str, dict[int, Estimate]] = {}
    for name, means_SK in means.items():
        S, K = means_SK.shape
        sd_K = means_SK.std(axis=0, ddof=1) if S > 1 else np.full(K, np.nan)
        columns = zip(ks, means_SK.mean(axis=0).tolist(), sd_K.tolist(), strict=True)
        scores[name] = {int(k): Estimate(mean, sd) for k, mean, sd in columns}
    return scores


def _means(seeds: Sequence[Counts], ks: Sequence[int]) -> FloatArray:
    """Return each seed's mean pass@k over problems, shape (S, K), from all samples."""
    return np.stack([pass_matrix(seed, ks).mean(axis=0) for seed in seeds])


def _means_of_k(by_k: Mapping[int, Sequence[Counts]], ks: Sequence[int]) -> FloatArray:
    """Return the same from k samples per problem: the share of problems with a correct one."""
    return np.concatenate([_means(by_k[k], (k,)) for k in ks], axis=1)


def evaluation_table(
    title: str,
    results: Mapping[str, Scores],
    beside: Mapping[str, Mapping[str, Scores]] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Return a row per model, a column per benchmark and k, and the unweighted averages.

    Benchmarks and ks are those of `results`; the rows of `beside` (section -> label -> scores)
    follow, with "–" for missing numbers. An average with a missing benchmark is undefined.
    """
    names = dict.fromkeys(name for scores in results.values() for name in scores)
    benchmarks = [name for name in names if name != _AVERAGE]
    ks = sorted({k for scores in results.values() for by_k in scores.values() for k in by_k})
    columns = [Column("model")]
    columns += [Column(f"pass@{k}", benchmark) for benchmark in benchmarks for k in ks]
    if len(benchmarks) > 1:
        columns += [Column(f"pass@{k}", _AVERAGE) for k in ks]
    rows = [_row(label, scores, benchmarks, ks) for label, scores in results.items()]
    rows += [
        _row(label, scores, benchmarks, ks, section)
        for section, rows_of in (beside or {}).items()
        for label, scores in rows_of.items()
    ]
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _row(
    label: str, scores: Scores, benchmarks: Sequence[str], ks: Sequence[int], section: str = ""
) -> Row:
    undefined = Estimate(float("nan"))
    by_benchmark = [[scores.get(name, {}).get(k, undefined) for k in ks] for name in benchmarks]
    cells = [measure for by_k in by_benchmark for measure in by_k]
    if len(benchmarks) > 1:
        averages = scores.get(_AVERAGE, {})
        for k, column in zip(ks, zip(*by_benchmark, strict=True), strict=True):
            cells.append(averages.get(k, Estimate(float(np.mean([m.value for m in column])))))
    return Row((label, *cells), section)


def _protocol_notes(measured: Sequence[SeedCounts], ks: Sequence[int]) -> list[str]:
    """Return notes on the rows of k samples and on the deviations of the rows above."""
    n, seeds = (
        max(int(counted.counts.n_P.max()) for counted in measured),
        {counted.seed for counted in measured},
    )
    notes = [
        f"({PROTOCOL}): pass@k is computed from each problem's first k samples only (pass@1 from "
        f"one sample), as published; ± is the standard deviation over {len(seeds)} evaluation "
        "seeds, with n - 1"
    ]
    if n > min(ks):
        notes.append(
            f"± in the rows above is that of {n} samples per problem. It is smaller than a "
            "published ±, which is that of k samples: compare published deviations with the rows "
            "of the same protocol"
        )
    if len(seeds) == 1:
        notes.append("with one evaluation seed there is no ±; --protocol paper uses five")
    return notes
