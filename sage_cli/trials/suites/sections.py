"""Sections of a suite's report: measurements, problems, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan

from sage_cli.metrics import curve, curve_ks, pooled
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.planned import state
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_heat_strip
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance, grade_notes, record
from sage_cli.reports.published import evaluation_tables, other_table, published, published_scores
from sage_cli.reports.scores import AVERAGE, evaluation_table, score
from sage_cli.reports.tables import Cell, Column, Estimate, Row, Scores, Table, columns, to_records
from sage_cli.trials.cost import cost
from sage_cli.trials.suites.declaration import shown_label
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.suites.trials import PlannedSuite
from sage_cli.trials.task import DONE

UNKNOWN = Estimate(float("nan"))


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
        numbers = {label: by for label, by in scores_of if label in result.suite.methods}
        tables.append(_beside(result, scores, numbers, ks, printed))
        source = (f"{printed} of {published()['source']}",)
        model = evaluation_tables()[printed]
        tables.append(evaluation_table(f"Published, {model}", numbers, notes=source))
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
        title="Measured and published",
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


def _beside(
    result: PartResult,
    scores: Mapping[str, Scores],
    printed: Mapping[str, Scores],
    ks: Sequence[int],
    name: str,
) -> Table:
    """Return averages over benchmarks, here and in the paper."""
    model = evaluation_tables()[name]
    printed_ks = sorted({k for by in printed.values() for score in by.values() for k in score})
    columns = [Column("method"), *(Column(f"pass@{k}", "here") for k in ks)]
    columns += [Column(f"pass@{k}", f"paper, {model}") for k in printed_ks]
    rows = []
    for label in result.suite.methods:
        method = result.method(label)
        here = [_mean(scores[method.shown], k) if method else UNKNOWN for k in ks]
        paper = [_mean(printed[label], k) if label in printed else UNKNOWN for k in printed_ks]
        rows.append(Row((shown_label(label), *here, *paper)))
    here_on = ", ".join(result.benchmarks) or "nothing yet"
    on = ", ".join(next(iter(printed.values())))
    notes = [f"here: the average over {here_on}; in the paper: over {on}"]
    if set(result.benchmarks) != set(next(iter(printed.values()))):
        notes.append("other models on other problems: compare the order of rows, not the numbers")
    return Table("Beside the paper", tuple(columns), tuple(rows), tuple(notes))


def _mean(scores: Scores, k: int) -> Estimate:
    """Return the average over benchmarks, with a deviation only for a single benchmark."""
    if AVERAGE in scores:
        return scores[AVERAGE].get(k, UNKNOWN)
    values = [by[k] for by in scores.values() if k in by]
    if len(values) == 1:
        return values[0]
    return Estimate(sum(value.value for value in values) / len(values)) if values else UNKNOWN


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


def problems(result: PartResult, base: MethodResult) -> Document:
    """Return a heat strip per benchmark and method, the base's on top."""
    shares: dict[str, dict[str, FloatArray]] = {}
    moved, problem_rows = [], []
    sampled = int(pooled(base.side(base.benchmarks[0]).counts).n_P.min())
    for benchmark in base.benchmarks:
        counts = pooled(base.side(benchmark).counts)
        before_P = counts.c_P / counts.n_P
        shares[benchmark] = {base.name: before_P}
        for method in result.there:
            own_counts = pooled(method.side(benchmark).counts).ordered(counts.problem_ids)
            after_P = own_counts.c_P / own_counts.n_P
            shares[benchmark][method.name] = after_P
            problem_rows += [
                Row((benchmark, id_, method.name, int(n), int(c)))
                for id_, n, c in zip(
                    own_counts.problem_ids, own_counts.n_P, own_counts.c_P, strict=True
                )
            ]
            if method is not base:
                moved.append(_moves(benchmark, method.label, before_P, after_P))
    heads = columns("benchmark, method, never → solved, solved → never, rarer, more often")
    table = Table("Problems by what became of them", heads, tuple(moved))
    sheet = Table("", columns("benchmark, problem, method, n, c"), tuple(problem_rows))
    return Document(
        name="problems",
        title="Problem by problem, before and after training",
        data={"strips": shares},
        tables=(table,),
        sheets={"problems": sheet},
        figures=(Figure("problems", partial(draw_heat_strip, shares)),),
        notes=(
            "a strip's cells are problems, from the base's rarest to its surest: the stronger, the "
            "more of its samples are right; a problem that was never solved has no colour",
            "never and solved are counts of samples, not of what could be: a problem that is "
            f"solved once in {10 * sampled:,} samples mostly goes unseen in {sampled:,}",
        ),
    )


def _moves(benchmark: str, method: str, before_P: FloatArray, after_P: FloatArray) -> Row:
    """Return the numbers of problems gained, lost, and changed by more than a tenth."""
    gained = int(((before_P == 0) & (after_P > 0)).sum())
    lost = int(((before_P > 0) & (after_P == 0)).sum())
    rarer = int((after_P < before_P - 0.1).sum())
    oftener = int((after_P > before_P + 0.1).sum())
    return Row((benchmark, method, gained, lost, rarer, oftener))


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
