"""The measurements of a suite: a summary, tables beside the published numbers, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sage_cli.metrics import curve, curve_ks
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.reports.document import Document
from sage_cli.reports.evaluation import AVERAGE, evaluation_table, score
from sage_cli.reports.measurement import grade_notes, record
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.published import (
    evaluation_tables,
    other_table,
    published,
    published_scores,
)
from sage_cli.reports.tables.table import Column, Measure, Row, Scores, Table, to_records
from sage_cli.trials.suites.results import PartResult

UNKNOWN = Measure(float("nan"))


def measured(result: PartResult) -> Document:
    """Return each method's pass@k on each benchmark, and the published numbers."""
    ks, there = result.ks, result.there
    # the ends of a curve: every k between them is in the curves' section
    ks = ks if len(ks) <= 4 else (ks[0], ks[-1])
    scores = {
        one.shown: score({name: one.spread(name) for name in one.benchmarks}, ks) for one in there
    }
    tables = [_with_missing(evaluation_table("Measured", scores, notes=_notes(result)), result)]
    printed = result.suite.published
    if printed in evaluation_tables():
        assert printed is not None
        scores_of = published_scores(printed).items()
        numbers = {label: by for label, by in scores_of if label in result.suite.methods}
        tables.append(_beside(result, scores, numbers, ks, printed))
        source = (f"{printed} of {published()['source']}",)
        model = evaluation_tables()[printed]
        tables.append(evaluation_table(f"Published, {model}", numbers, notes=source))
    elif printed and (other := other_table(printed)) is not None:
        tables.append(other)
    seeds = [seeds for method in there for by in method.measured for seeds in by.values()]
    rows = [one for of_policy in seeds for one in of_policy]
    titles = {one.policy.label: one.title for method in result.methods for one in method.replicates}
    return Document(
        name="measured",
        title="Measured and published",
        data={
            "k": list(ks),
            "rows": to_records(tables[0]),
            "measurements": [
                record(one) | {"policy": one.policy, "benchmark": one.benchmark} for one in rows
            ],
            "same": dict(result.same),
        },
        tables=tuple(tables),
        sheets={"measured": tables[0]},
        notes=grade_notes([replace(one, policy=titles[one.policy]) for one in rows]),
    )


def published_alone(table: Table) -> Document:
    """Return the document of a published table that is not of pass@k."""
    return Document("published", "Published", {"rows": to_records(table)}, tables=(table,))


def _with_missing(table: Table, result: PartResult) -> Table:
    lost = [one for one in result.methods if not one.measured]
    width = len(table.columns) - 1
    rows = [Row((one.shown, *[UNKNOWN] * width), "missing") for one in lost]
    return Table(table.title, table.columns, (*table.rows, *rows), table.notes)


def _beside(
    result: PartResult,
    scores: Mapping[str, Scores],
    printed: Mapping[str, Scores],
    ks: Sequence[int],
    name: str,
) -> Table:
    """Return averages over benchmarks, here and in the paper."""
    model = evaluation_tables()[name]
    printed_ks = sorted({k for by in printed.values() for one in by.values() for k in one})
    columns = [Column("method"), *(Column(f"pass@{k}", "here") for k in ks)]
    columns += [Column(f"pass@{k}", f"paper, {model}") for k in printed_ks]
    rows = []
    for label in result.suite.methods:
        own = result.method(label)
        here = [_mean(scores[own.shown], k) if own else UNKNOWN for k in ks]
        there = [_mean(printed[label], k) if label in printed else UNKNOWN for k in printed_ks]
        rows.append(Row((label, *here, *there)))
    here_on = ", ".join(result.benchmarks) or "nothing yet"
    on = ", ".join(next(iter(printed.values())))
    notes = [f"here: the average over {here_on}; in the paper: over {on}"]
    if set(result.benchmarks) != set(next(iter(printed.values()))):
        notes.append("other models on other problems: compare the order of rows, not the numbers")
    return Table("Beside the paper", tuple(columns), tuple(rows), tuple(notes))


def _mean(scores: Scores, k: int) -> Measure:
    """Return the average over benchmarks, with a deviation only for a single benchmark."""
    if AVERAGE in scores:
        return scores[AVERAGE].get(k, UNKNOWN)
    values = [by[k] for by in scores.values() if k in by]
    if len(values) == 1:
        return values[0]
    return Measure(sum(one.value for one in values) / len(values)) if values else UNKNOWN


def _notes(result: PartResult) -> list[str]:
    if not result.there:
        return []
    first = result.there[0].trial.config
    trainings = max(len(one.measured) for one in result.there)
    over = "training seeds" if trainings > 1 else "evaluation seeds"
    notes = [
        f"{first.evaluation.samples} samples per problem, evaluation seeds: "
        f"{first.evaluation.seeds}, training seeds: {trainings}, temperature "
        f"{first.sampling.temperature:g}; ± over {over}, of an initial policy over evaluation seeds"
    ]
    notes += [f"{label} is {other} under this model" for label, other in result.same.items()]
    return notes


def curves(result: PartResult) -> Document:
    """Return the report of curves: a panel per benchmark, a line per method."""
    lines = []
    for method in result.there:
        evaluation = method.trial.config.evaluation
        ks = curve_ks(evaluation.samples, result.ks)
        for benchmark in method.benchmarks:
            counts = method.side(benchmark).counts
            pooled = curve(counts, ks, Resampling(evaluation.confidence, evaluation.bootstrap))
            lines.append(Line(method.label, benchmark, pooled))
    return passk_document(lines, Provenance(), result.ks)


def summary(result: PartResult) -> str:
    """Return methods, problems, trainings and samples, or that nothing is measured yet."""
    if not result.methods:
        return ""
    if not result.there:
        labels = ", ".join(one.label for one in result.methods)
        state = "not measured yet" if result.suite.measured else "nothing is measured"
        return f"{labels}: {state}."
    first = result.there[0]
    problems = [
        f"{_counted(len(seeds[0].counts), 'problem')} of {name}"
        for name, seeds in first.measured[0].items()
    ]
    evaluation = first.trial.config.evaluation
    trainings = [len(one.measured) for one in result.there if not one.is_base]
    parts = [
        *([f"{_range(trainings)} of each method"] if trainings else []),
        f"{evaluation.samples} samples of each problem",
        _counted(evaluation.seeds, "evaluation seed"),
    ]
    labels = ", ".join(one.label for one in result.there)
    return f"{labels} on {' and '.join(problems)}: {', '.join(parts)}."


def _range(trainings: list[int]) -> str:
    """Return `3 trainings`, or `1 to 3 trainings` if some methods lack one."""
    fewest, most = min(trainings), max(trainings)
    beginning = "" if fewest == most else f"{fewest} to "
    return beginning + _counted(most, "training")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
