"""Sections of a suite's report: measurements, curves, runs."""

from __future__ import annotations

from dataclasses import replace
from math import nan

from sage_cli.metrics import curve, curve_ks
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.planned import state
from sage_cli.reports.document import Document
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance, grade_notes, record
from sage_cli.reports.published import evaluation_tables, other_table, published, published_scores
from sage_cli.reports.scores import evaluation_table, score
from sage_cli.reports.tables import Cell, Column, Estimate, Row, Table, columns, to_records
from sage_cli.trials.cost import cost
from sage_cli.trials.suites.declaration import shown_label
from sage_cli.trials.suites.results import PartResult
from sage_cli.trials.suites.trials import PlannedSuite
from sage_cli.trials.task import DONE

UNKNOWN = Estimate(nan)


def measured(result: PartResult) -> Document:
    """Return each method's pass@k on each benchmark, and the published numbers."""
    ks, methods = result.ks, result.there
    # the ends of a curve: every k between them is in the curves' section
    ks = ks if len(ks) <= 4 else (ks[0], ks[-1])
    scores = {
        method.shown: score({name: method.spread(name) for name in method.benchmarks}, ks)
        for method in methods
    }
    tables = [_with_missing(evaluation_table("Measured", scores, notes=_notes(result)), result)]
    printed = result.suite.published
    if printed in evaluation_tables():
        assert printed is not None
        scores_of = published_scores(printed).items()
        methods_of = result.suite.methods
        numbers = {shown_label(label): by for label, by in scores_of if label in methods_of}
        notes = [f"{printed} of {published()['source']}"]
        if set(result.benchmarks) != set(next(iter(numbers.values()))):
            notes.append("other models on other problems: compare the order of rows, not numbers")
        model = evaluation_tables()[printed]
        tables.append(evaluation_table(f"Published, {model}", numbers, notes=notes))
    elif printed and (other_printed := other_table(printed)) is not None:
        tables.append(other_printed)
    rows = [measurement for method in methods for measurement in method.measurements]
    titles = {
        replicate.policy.label: replicate.title
        for method in result.methods
        for replicate in method.replicates
    }
    return Document(
        name="measured",
        title="Measured and published" if printed else "Measured",
        data={
            "k": list(ks),
            "rows": to_records(tables[0]),
            "measurements": [
                record(measurement)
                | {"policy": measurement.policy, "benchmark": measurement.benchmark}
                for measurement in rows
            ],
            "same": dict(result.same),
        },
        tables=tuple(tables),
        sheets={"measured": tables[0]},
        notes=grade_notes(
            [replace(measurement, policy=titles[measurement.policy]) for measurement in rows]
        ),
    )


def published_alone(table: Table) -> Document:
    """Return the document of a published table that is not of pass@k."""
    return Document("published", "Published", {"rows": to_records(table)}, tables=(table,))


def _with_missing(table: Table, result: PartResult) -> Table:
    lost = [method for method in result.methods if not method.measured]
    width = len(table.columns) - 1
    rows = [Row((method.shown, *[UNKNOWN] * width), "missing") for method in lost]
    return Table(table.title, table.columns, (*table.rows, *rows), table.notes)


def _notes(result: PartResult) -> list[str]:
    if not result.there:
        return []
    first = result.there[0].trial.config
    trainings = max(len(method.measured) for method in result.there)
    over = "training seeds" if trainings > 1 else "evaluation seeds"
    notes = [
        f"{first.evaluation.samples} samples per problem, evaluation seeds: "
        f"{first.evaluation.seeds}, training seeds: {trainings}, temperature "
        f"{first.sampling.temperature:g}; ± over {over}, of an initial policy over evaluation seeds"
    ]
    notes += [f"{label} is {same} under this model" for label, same in result.same.items()]
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
            lines.append(Line(method.name, benchmark, pooled))
    return passk_document(lines, Provenance(), result.ks)


def runs(result: PartResult) -> Document:
    """Return a row for each training, the base's first."""
    rows, spent_s = [], {}
    for method in result.methods:
        for replicate in method.replicates:
            run = replicate.policy.run
            manifest = run.known if run else {}
            seconds = float(manifest.get("seconds", "nan"))
            spent_s[replicate.policy.label] = seconds
            section = replicate.config.sft if replicate.is_initial else replicate.config.rl
            status = state(run) if run else "taken as it is"
            number = (section.steps or "–") if run else "–"
            sampled = (
                [record.get("sampled/tokens", nan) for record in run.metrics.read()] if run else []
            )
            tokens = Estimate(sum(sampled) if sampled else nan, digits=0)
            minutes = Estimate(seconds / 60, digits=1)
            name: tuple[Cell, ...] = (method.name, replicate.seed + 1, replicate.policy.label)
            rows.append(Row((*name, status, str(number), tokens, minutes)))
    whole = sum(value for value in spent_s.values() if value == value)
    heads = columns("method, seed, policy, state, steps, sampled tokens, minutes")
    table = Table("Policies", heads, tuple(rows))
    return Document(
        name="runs",
        title="What was run",
        data={"seconds": whole},
        tables=(table,),
        sheets={"runs": table},
        notes=(f"{whole / 60:.1f} minutes of training in all, sampling and grading left out",),
    )


def tasks(plan: PlannedSuite) -> Document:
    """Return the commands, their state, and the cost of all at most."""
    rows = tuple(
        Row((str(number), task.title, task.state, task.typed))
        for number, task in enumerate(plan.tasks, 1)
    )
    heads = (Column(""), *columns("task, state, command"))
    whole = cost(plan.tasks)
    done = sum(row.cells[2] == DONE for row in rows)
    return Document(
        name="tasks",
        title="Commands and cost",
        data={"cost": whole, "done": done, "tasks": len(rows)},
        tables=(Table(f"{done} of {len(rows)} tasks are done", heads, rows),),
        notes=(f"all tasks from the beginning: {whole.describe()}",),
    )
