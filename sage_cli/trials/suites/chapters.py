"""A suite's report: its sections as one document, and as the page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from sage_cli.evaluation.evaluate import configured_provenance
from sage_cli.metrics import curve, curve_ks
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.facts import state
from sage_cli.reports.chapters import Chapter, join_chapters
from sage_cli.reports.document import Document, Report
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.evaluation import evaluation_table, score
from sage_cli.reports.grades import grade_notes, record
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import PolicyUsed, Provenance, SamplesUsed
from sage_cli.reports.published import evaluation_tables, other_table, published, published_scores
from sage_cli.reports.shown import SHOWN, shown_report
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Cell, Column, Row, Table, columns
from sage_cli.store.files import write_text
from sage_cli.store.json_files import compact_json, with_checksum
from sage_cli.store.surroundings import surroundings
from sage_cli.trials.cost import cost
from sage_cli.trials.suites.declaration import shown_label
from sage_cli.trials.suites.differences import differences
from sage_cli.trials.suites.plan import PlannedSuite
from sage_cli.trials.suites.results import PartResult, write_counts
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
        for replicate in method.trial.replicates
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
    over = "evaluation seeds"
    if trainings > 1:
        over = "training seeds (for the initial policy over evaluation seeds)"
    notes = [
        f"{first.evaluation.samples} samples per problem, evaluation seeds: "
        f"{first.evaluation.seeds}, training seeds: {trainings}, temperature "
        f"{first.sampling.temperature:g}; ± is the standard deviation over {over}"
    ]
    notes += [f"{label} equals {same} for this model" for label, same in result.same.items()]
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
        for replicate in method.trial.replicates:
            run = replicate.policy.run
            manifest = run.try_manifest() if run else {}
            seconds = float(manifest.get("seconds", "nan"))
            spent_s[replicate.policy.label] = seconds
            section = replicate.config.sft if replicate.is_initial else replicate.config.rl
            status = state(run) if run else "used without training"
            number = (section.steps or "–") if run else "–"
            sampled = (
                [record.get("sampled/tokens", nan) for record in run.metrics.read()] if run else []
            )
            tokens = Estimate(sum(sampled) if sampled else nan, digits=0)
            minutes = Estimate(seconds / 60, digits=1)
            name: tuple[Cell, ...] = (method.name, replicate.seed + 1, replicate.policy.label)
            rows.append(Row((*name, status, str(number), tokens, minutes)))
    whole = sum(value for value in spent_s.values() if value == value)
    heads = columns("method=arm, seed, policy, state, steps#, sampled tokens#, minutes")
    table = Table("Policies", heads, tuple(rows))
    return Document(
        name="runs",
        title="What was run",
        data={"seconds": whole},
        tables=(table,),
        sheets={"runs": table},
        notes=(f"training took {whole / 60:.1f} minutes in total, without sampling and grading",),
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
        notes=(f"all tasks together cost at most {whole.describe()}",),
    )


COUNTS = "counts.parquet"


@dataclass(frozen=True)
class SuiteReport:
    """A written report of a suite, its chapters, and the facts at its top."""

    report: Report
    chapters: Sequence[Chapter]
    facts: Mapping[str, str]

    @property
    def page(self) -> Path:
        """Return where its page is, beside the report's other files."""
        return self.report.folder / f"{self.report.document.name}.html"


def chapters(
    plan: PlannedSuite,
    part_results: Sequence[PartResult],
    analyses: Mapping[str, Sequence[Document]],
) -> list[Chapter]:
    """A chapter for each suite that has methods or a sweep, and at the end all commands.

    `analyses` are further sections by suite, among them that of its sweep.
    """
    all_chapters = [
        Chapter(
            result.suite.name,
            result.suite.title,
            _sections(result, analyses.get(result.suite.name, ())),
        )
        for result in part_results
    ]
    all_chapters = [chapter for chapter in all_chapters if chapter.sections]
    if len(all_chapters) == 1:
        return [replace(all_chapters[0], sections=[*all_chapters[0].sections, tasks(plan)])]
    return [*all_chapters, Chapter("tasks", "Commands and cost", [tasks(plan)])]


def write_report(
    plan: PlannedSuite, part_results: Sequence[PartResult], all_chapters: Sequence[Chapter]
) -> SuiteReport:
    """Write every form but the page into the suite's folder, and its counts as Parquet."""
    facts = {
        "suite": plan.suite.name,
        "presets": list(plan.overrides.presets),
        "chosen": [sentence for result in part_results for sentence in result.suite.chosen],
    }
    document = join_chapters(
        plan.suite.name, plan.suite.title, all_chapters, _provenance(plan, part_results), facts
    )
    report = document.write(plan.folder / "report")
    write_counts(part_results, report.folder / COUNTS)
    at_the_top = _facts(plan, part_results, all_chapters)
    if sampled := document.provenance.sampled:
        at_the_top["measured"] = sampled
    shown = with_checksum(shown_report(document, all_chapters, at_the_top))
    write_text(report.folder / SHOWN, compact_json(shown) + "\n")
    return SuiteReport(report, all_chapters, at_the_top)


def _facts(
    plan: PlannedSuite, part_results: Sequence[PartResult], all_chapters: Sequence[Chapter]
) -> dict[str, str]:
    claims = Counter(
        claim["verdict"]
        for chapter in all_chapters
        for section in chapter.sections
        for claim in section.data.get("claims", ())
    )
    facts = {"preset": ", ".join(plan.overrides.presets)}
    if plan.overrides.sets:
        facts["changed"] = ", ".join(plan.overrides.sets)
    if claims:
        facts["claims"] = ", ".join(f"{verdict} ({count})" for verdict, count in claims.items())
    lost = [method.shown for result in part_results for method in result.methods if method.why]
    if lost:
        facts["incomplete"] = "; ".join(lost)
    chosen = [sentence for result in part_results for sentence in result.suite.chosen]
    if chosen:
        published = any(result.suite.published for result in part_results)
        facts["assumed where the paper is silent" if published else "assumed"] = " ".join(chosen)
    return facts


def _sections(result: PartResult, analyses: Sequence[Document]) -> list[Document]:
    printed = other_table(result.suite.published) if result.suite.published else None
    if not result.methods:
        return [*analyses, *([published_alone(printed)] if printed is not None else [])]
    sections = []
    if result.suite.measured:
        sections.append(measured(result))
    elif printed is not None:
        sections.append(published_alone(printed))
    if result.suite.compared:
        sections.append(differences(result))
    if result.there:
        sections.append(curves(result))
    return [*sections, *analyses, runs(result)]


def _provenance(plan: PlannedSuite, part_results: Sequence[PartResult]) -> Provenance:
    measured_methods = [method for result in part_results for method in result.there]
    replicates = [replicate for method in measured_methods for replicate in method.trial.replicates]
    if not replicates:
        return Provenance.here(surroundings())
    config = replicates[0].config
    policies = {
        replicate.policy.label: PolicyUsed(
            replicate.policy.label,
            replicate.policy.place,
            replicate.policy.fingerprint,
            replicate.policy.run.id if replicate.policy.run else None,
            None if replicate.is_initial else replicate.initial.label,
        )
        for replicate in replicates
        if replicate.policy.exists
    }
    samples = {
        measurement.sample_set: SamplesUsed(
            measurement.sample_set, measurement.policy, measurement.seed
        )
        for method in measured_methods
        for measurement in method.measurements
    }
    evaluation = config.evaluation
    return replace(
        configured_provenance(plan.benchmarks.load(config), config),
        policies=tuple(policies.values()),
        samples=tuple(samples.values()),
        seeds=tuple(range(evaluation.seed, evaluation.seed + evaluation.seeds)),
    )
