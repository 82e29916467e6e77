"""A suite's report: its sections as one document, and as the page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import TypedDict

from sage_cli.evaluation.evaluate import configured_provenance
from sage_cli.reports.chapters import SHOWN, Chapter, join_chapters, shown_report
from sage_cli.reports.document import Document, Report
from sage_cli.reports.provenance import PolicyUsed, Provenance, SamplesUsed
from sage_cli.reports.published import other_table
from sage_cli.store.files import compact_json, write_text
from sage_cli.store.manifest import surroundings
from sage_cli.trials.suites.claims import differences
from sage_cli.trials.suites.declaration import BASE
from sage_cli.trials.suites.names import for_people, named
from sage_cli.trials.suites.results import PartResult, write_counts
from sage_cli.trials.suites.sections import (
    curves,
    measured,
    power,
    problems,
    published_alone,
    runs,
    spent,
    summary,
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


class SuiteFacts(TypedDict):
    """The suite, its presets, and the choices where the paper is silent."""

    suite: str
    presets: list[str]
    chosen: list[str]


def chapters(
    plan: PlannedSuite,
    found: Sequence[PartResult],
    analyses: Mapping[str, Sequence[Document]],
) -> list[Chapter]:
    """A chapter for each suite that has methods or a sweep, and at the end all commands.

    `analyses` are further sections by suite, among them that of its sweep.
    """
    every = [
        Chapter(
            one.suite.name,
            one.suite.title,
            _shown(one, analyses.get(one.suite.name, ())),
            named(summary(one)),
        )
        for one in found
    ]
    every = [chapter for chapter in every if chapter.sections]
    if len(every) == 1:
        return [replace(every[0], sections=[*every[0].sections, tasks(plan)])]
    return [*every, Chapter("tasks", "Commands and cost", [tasks(plan)])]


def write_report(
    plan: PlannedSuite, found: Sequence[PartResult], every: Sequence[Chapter]
) -> SuiteReport:
    """Write every form but the page into the suite's folder, and its counts as Parquet."""
    facts: SuiteFacts = {
        "suite": plan.suite.name,
        "presets": list(plan.overrides.presets),
        "chosen": [sentence for one in found for sentence in one.suite.chosen],
    }
    document = join_chapters(
        plan.suite.name, plan.suite.title, every, _provenance(plan, found), facts
    )
    report = document.write(plan.folder / "report")
    write_counts(found, report.folder / COUNTS)
    at_the_top = _facts(plan, found, every)
    write_text(
        report.folder / SHOWN, compact_json(shown_report(document, every, at_the_top)) + "\n"
    )
    return SuiteReport(report, every, at_the_top)


def _facts(
    plan: PlannedSuite, found: Sequence[PartResult], every: Sequence[Chapter]
) -> dict[str, str]:
    claims = Counter(
        one["verdict"]
        for chapter in every
        for section in chapter.sections
        for one in section.data.get("claims", ())
    )
    facts = {"preset": ", ".join(plan.overrides.presets)}
    if plan.overrides.sets:
        facts["changed"] = ", ".join(plan.overrides.sets)
    if claims:
        facts["claims"] = ", ".join(f"{verdict} ({count})" for verdict, count in claims.items())
    lost = [named(one.shown) for result in found for one in result.methods if one.why]
    if lost:
        facts["incomplete"] = "; ".join(lost)
    chosen = [sentence for one in found for sentence in one.suite.chosen]
    if chosen:
        facts["chosen where the paper is silent"] = " ".join(chosen)
    return facts


def _shown(result: PartResult, analyses: Sequence[Document]) -> list[Document]:
    sections = _sections(result, analyses)
    return list(map(for_people, sections)) if BASE in result.suite.methods else sections


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
    if result.suite.against:
        sections.append(spent(result))
    if result.there:
        sections.append(curves(result))
    if result.base is not None:
        sections += [problems(result, result.base), power(result, result.base)]
    return [*sections, *analyses, runs(result)]


def _provenance(plan: PlannedSuite, found: Sequence[PartResult]) -> Provenance:
    there = [method for result in found for method in result.there]
    replicates = [one for method in there for one in method.replicates]
    if not replicates:
        return Provenance.here(surroundings())
    config = replicates[0].config
    policies = {
        one.policy.label: PolicyUsed(
            one.policy.label,
            one.policy.place,
            one.policy.fingerprint,
            one.policy.run.id if one.policy.run else None,
            None if one.is_initial else one.initial.label,
        )
        for one in replicates
        if one.policy.exists
    }
    samples = {
        one.sample_set: SamplesUsed(one.sample_set, one.policy, one.seed)
        for method in there
        for by_benchmark in method.measured
        for seeds in by_benchmark.values()
        for one in seeds
    }
    evaluation = config.evaluation
    return replace(
        configured_provenance(plan.stored.benchmarks(config), config),
        policies=tuple(policies.values()),
        samples=tuple(samples.values()),
        seeds=tuple(range(evaluation.seed, evaluation.seed + evaluation.seeds)),
    )
