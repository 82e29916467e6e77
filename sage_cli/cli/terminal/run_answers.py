"""The types of `--json` output of `sage runs`. Commands import them for types only."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from sage_cli.store.runs.manifest import Manifest


class RemovedAnswer(TypedDict):
    """The removed run and its folder."""

    removed: str
    folder: str


class RunJson(Manifest):
    """A run's manifest with its true status, and that of the one begun anew in its place."""

    replacement: NotRequired[str]


@with_config(ConfigDict(extra="allow"))
class TornRun(TypedDict):
    """A run whose manifest or configuration is torn, and why. Other keys are the manifest's, if it
    is whole."""

    id: str
    status: Literal["torn"]
    reason: str


class RunsAnswer(TypedDict):
    """Runs, oldest first, after the torn ones."""

    runs: list[RunJson | TornRun]


class RunColumnsAnswer(TypedDict):
    """Selected runs, oldest first: a value for each of the columns, null for none."""

    columns: list[str]
    runs: list[dict[str, Any]]


class RunAnswer(TypedDict):
    """A run: manifest, method settings, last record, last validation, evaluations, and speed."""

    manifest: Manifest
    method: dict[str, Any]
    last: dict[str, Any]
    validated: dict[str, Any]
    evaluations: dict[str, Any]
    speed: dict[str, float]
    folder: str


class DifferencesAnswer(TypedDict):
    """Differences of two runs by name, a's value before b's; null for none."""

    a: str
    b: str
    settings: dict[str, tuple[Any, Any]]
    about: dict[str, tuple[Any, Any]]
    figures: dict[str, tuple[Any, Any]]


class FolderAnswer(TypedDict):
    """A folder."""

    folder: str


class PrunedRow(TypedDict):
    """A folder, its bytes, why it can be deleted or is kept, and its run if it has one."""

    path: str
    bytes: int
    why: str
    run: str | None


class PrunedAnswer(TypedDict):
    """What was deleted, or would be, and what is kept."""

    deleted: list[PrunedRow]
    kept: list[PrunedRow]
    carried_out: bool
