"""A suite's report: its sections as one document, and as the page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sage_cli.evaluation.evaluate import configured_provenance
from sage_cli.reports.document import SHOWN, Chapter, Document, Report, join_chapters, shown_report
from sage_cli.reports.provenance import PolicyUsed, Provenance, SamplesUsed
from sage_cli.reports.published import other_table
from sage_cli.store.files import compact_json, with_checksum, write_text
from sage_cli.store.manifest import surroundings
from sage_cli.trials.suites.claims import differences
from sage_cli.trials.suites.results import PartResult, write_counts
from sage_cli.trials.suites.sections import (
    curves,
    measured,
    published_alone,
    runs,
    tasks,
)
from sage_cli.trials.suites.trials import PlannedSuite

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
        facts["chosen where the paper is silent" if published else "chosen"] = " ".join(chosen)
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
    replicates = [replicate for method in measured_methods for replicate in method.replicates]
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
