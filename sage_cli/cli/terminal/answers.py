"""The types of `--json` output. They import every room, so commands import them for types only."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from sage_cli.commands.data import Listed
from sage_cli.commands.measure.grade import Malformed
from sage_cli.commands.measure.samples import TrainingCompletion
from sage_cli.config.meaning import Meaning
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.stored import StoredAnswer
from sage_cli.grading.grades import Status
from sage_cli.problems.problem import Problem
from sage_cli.reports.document import ReportJson, Written
from sage_cli.reports.passk import PasskData
from sage_cli.store.runs.manifest import Manifest
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.report import SuiteData


class PasskReport(ReportJson, PasskData):
    """Curves and the folder of their report."""


class Error(TypedDict):
    """The cause of a failure and the next step; `exit_code` is the command's."""

    cause: str
    next_step: str | None
    exit_code: int


class ErrorAnswer(TypedDict):
    """The answer of a command that failed."""

    error: Error


@with_config(ConfigDict(extra="allow"))
class PlannedStage(TypedDict):
    """A stage of the plan; its other keys are facts in words."""

    stage: str


class PlanAnswer(TypedDict):
    """The answer to `--dry-run`."""

    stages: list[PlannedStage]


class Trained(Manifest):
    """The manifest of a finished run; `evaluations` with `--measure`."""

    evaluations: NotRequired[dict[str, Any]]


class AnalysisSays(TypedDict):
    """An analysis with its description."""

    name: str
    says: str


class AnalysesAnswer(TypedDict):
    """The answer of `sage analyze` without a name."""

    analyses: list[AnalysisSays]


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
        "imported": NotRequired[Status],
        "extracted": str | None,
    },
)
"""A completion by its line and its place in the line: its status in each requested mode, the
verdict that came with an imported one, and its extracted answer."""


class Place(TypedDict):
    """A completion by its line and its place in the line."""

    line: int
    index: int


class GradeAnswer(TypedDict):
    """Grades counted by mode, differences between modes, malformed lines, and every grade."""

    file: str
    judge: str
    statuses: dict[str, dict[str, int]]
    differences: list[Place]
    malformed: list[Malformed]
    grades: list[GradedRow]


@with_config(ConfigDict(extra="allow"))
class AlgorithmJson(TypedDict):
    """An algorithm: its source, and how it differs from it. Other keys are settings of `rl`."""

    source: str
    form: str
    read: str
    differs: str | None
    kl: str
    anchor: dict[str, Any]


class PresetRow(TypedDict):
    """A preset that ships: its name and what it is."""

    name: str
    about: str


class PresetsAnswer(TypedDict):
    """The presets that ship."""

    presets: list[PresetRow]


class DemoAnswer(TypedDict):
    """The folders of the runs, and the report of their curves."""

    runs: list[str]
    curves: PasskReport


class SourcesAnswer(TypedDict):
    """The registered sources of problems."""

    sources: list[Listed]


class SourceAnswer(TypedDict):
    """A source: its problems, their origins, groups with the same question, the first ones."""

    name: str
    problems: int
    columns: list[str]
    origins: list[str]
    repeated: list[list[str]]
    first: list[Problem]


class ReportsAnswer(TypedDict):
    """Reports, newest first."""

    reports: list[Written]


class SamplesAnswer(TypedDict):
    """Stored completions with their problems and grades."""

    samples: list[StoredAnswer]


class ImportedAnswer(TypedDict):
    """Samples of another program that are stored as the run `run`, unless it was a dry run.

    `right` counts the program's verdicts, null where not every sample has one; `unknown` names what
    the file doesn't say.
    """

    run: str
    program: str
    score: str | None
    problems: int
    samples: int
    right: int | None
    settings: dict[str, Any]
    unknown: list[str]
    notes: list[str]
    stored: bool


class TrainingCompletionsAnswer(TypedDict):
    """Completions that a training sampled, with their grades."""

    completions: list[TrainingCompletion]


class OriginsAnswer(TypedDict):
    """Every setting, and the origin of its value by dotted name."""

    config: SageConfig
    origins: dict[str, str]


class SettingsAnswer(TypedDict):
    """The meanings of settings."""

    settings: list[Meaning]


class CheckedAnswer(TypedDict):
    """A file of valid settings."""

    file: str
    valid: Literal[True]


class CheckJson(TypedDict):
    """The result of a check: `fine` if nothing is to mend, `obstacle` if commands would fail."""

    check: str
    said: str
    mend: str | None
    obstacle: bool
    fine: bool


class DoctorAnswer(TypedDict):
    """True `can_run` if a configuration can run here, with the result of each check."""

    configuration: str
    can_run: bool
    checks: list[CheckJson]


class WrittenAnswer(TypedDict):
    """A folder and the files written into it."""

    folder: str
    written: list[str]


class ViewAnswer(TypedDict):
    """The address of the page, with its token, and the folder of runs."""

    address: str
    root: str


class ExportedAnswer(TypedDict):
    """The file of an exported page and its size."""

    file: str
    bytes: int
