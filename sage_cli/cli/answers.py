"""What commands print with `--json`, as types. Only types read this file: it imports every room."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from sage_cli.config.meaning import Meaning
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.stored import StoredAnswer
from sage_cli.grading.status import Status
from sage_cli.problems.problem import Problem
from sage_cli.reports.document import ReportJson
from sage_cli.reports.passk import PasskData
from sage_cli.reports.written import Written
from sage_cli.store.manifest import Manifest
from sage_cli.suite.declaration import Suite
from sage_cli.suite.report import SuiteData
from sage_cli.workflows.data import Listed
from sage_cli.workflows.grade import Malformed


class PasskReport(ReportJson, PasskData):
    """Curves, and where their report is."""


class Error(TypedDict):
    """What went wrong, to what, and what to do; `exit_code` is the command's."""

    cause: str
    next_step: str | None
    exit_code: int


class ErrorAnswer(TypedDict):
    """The answer of any command that didn't get to its own."""

    error: Error


@with_config(ConfigDict(extra="allow"))
class PlannedStage(TypedDict):
    """A stage of the work; its other keys are facts in words."""

    stage: str


class PlanAnswer(TypedDict):
    """The answer to `--dry-run`."""

    stages: list[PlannedStage]


class Trained(Manifest):
    """The manifest of a finished run; `evaluations` where `--measure` was asked for."""

    evaluations: NotRequired[dict[str, Any]]


class AnalysisSays(TypedDict):
    """An analysis, and what it tells."""

    name: str
    says: str


class AnalysesAnswer(TypedDict):
    """The answer of `sage analyze` without a name."""

    analyses: list[AnalysisSays]


class RemovedAnswer(TypedDict):
    """What was removed, and where it lay."""

    removed: str
    folder: str


class SuitesAnswer(TypedDict):
    """Suites as they are declared."""

    suites: list[Suite]


class SuiteAnswer(ReportJson, SuiteData):
    """A suite's report and its page. Sections hold the data of `passk`, `power`, `analyze` and
    others, and their notes."""

    page: str


GradedRow = TypedDict(
    "GradedRow",
    {
        "line": int,
        "index": int,
        "strict": NotRequired[Status],
        "math-verify": NotRequired[Status],
        "extracted": str | None,
    },
)
"""A completion by its line and its place among the line's: its status in each mode that was asked
for, and the answer that was found in it."""


class Place(TypedDict):
    """A completion by its line and its place among the line's."""

    line: int
    index: int


class GradeAnswer(TypedDict):
    """Verdicts counted by mode, where modes differ, lines that aren't graded, and every grade."""

    file: str
    judge: str
    statuses: dict[str, dict[str, int]]
    differences: list[Place]
    malformed: list[Malformed]
    grades: list[GradedRow]


@with_config(ConfigDict(extra="allow"))
class AlgorithmJson(TypedDict):
    """An algorithm: where it is from, and how near to that it comes. Its other keys are settings
    of `rl`."""

    source: str
    form: str
    read: str
    differs: str | None
    kl: str
    loss: str
    advantage: str
    anchor: dict[str, Any]
    advantage_options: dict[str, Any]


class DemoAnswer(TypedDict):
    """The folders of the runs, and the report of their curves."""

    runs: list[str]
    curves: PasskReport


class SourcesAnswer(TypedDict):
    """The registered sources of problems."""

    sources: list[Listed]


class SourceAnswer(TypedDict):
    """How many problems a source has, where they are from, the groups that ask the same, and the
    first problems."""

    name: str
    problems: int
    columns: list[str]
    origins: list[str]
    repeated: list[list[str]]
    first: list[Problem]


class RunJson(Manifest):
    """A run's manifest with its true status, and that of the one begun anew in its place."""

    begun_anew: NotRequired[str]


@with_config(ConfigDict(extra="allow"))
class TornRun(TypedDict):
    """A run whose manifest or configuration can't be read, and why. Its other keys are those of
    the manifest, where that is whole."""

    id: str
    status: Literal["torn"]
    reason: str


class RunsAnswer(TypedDict):
    """Runs, oldest first; those that are torn before all others."""

    runs: list[RunJson | TornRun]


class RunColumnsAnswer(TypedDict):
    """Runs that fit, oldest first: a value for each of the columns, null where there is none."""

    columns: list[str]
    runs: list[dict[str, Any]]


class RunAnswer(TypedDict):
    """A run: its manifest, its method's settings, its last record, the last look at development
    problems, what evaluations found, and how fast it was."""

    manifest: Manifest
    method: dict[str, Any]
    last: dict[str, Any]
    looked: dict[str, Any]
    evaluations: dict[str, Any]
    speed: dict[str, float]
    folder: str


class DifferencesAnswer(TypedDict):
    """By name what two runs say differently, a's value before b's; null where one says nothing."""

    a: str
    b: str
    settings: dict[str, tuple[Any, Any]]
    about: dict[str, tuple[Any, Any]]
    figures: dict[str, tuple[Any, Any]]


class FolderAnswer(TypedDict):
    """A folder."""

    folder: str


class RestoredAnswer(TypedDict):
    """The runs that are new, the archive's digest and its sample sets."""

    restored: list[str]
    digest: str
    sample_sets: list[str]


class ReportsAnswer(TypedDict):
    """Reports, newest first."""

    reports: list[Written]


class SamplesAnswer(TypedDict):
    """Stored completions with their problems and verdicts."""

    samples: list[StoredAnswer]


class OriginsAnswer(TypedDict):
    """Every setting, and by dotted name where its value came from."""

    config: SageConfig
    origins: dict[str, str]


class SettingsAnswer(TypedDict):
    """What settings mean."""

    settings: list[Meaning]


class CheckedAnswer(TypedDict):
    """A file of settings that are valid."""

    file: str
    valid: Literal[True]


class CheckJson(TypedDict):
    """What one check says; `fine` where there is nothing to mend, an `obstacle` where commands of
    this configuration would be refused."""

    check: str
    said: str
    mend: str | None
    obstacle: bool
    fine: bool


class DoctorAnswer(TypedDict):
    """Whether a configuration can run here, and what each check says."""

    configuration: str
    can_run: bool
    checks: list[CheckJson]


class WrittenAnswer(TypedDict):
    """A folder, and the files that were written into it."""

    folder: str
    written: list[str]
