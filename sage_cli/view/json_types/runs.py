"""Types of the answers about runs."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.store.runs.manifest import Manifest
from sage_cli.view.json_types.look import Look


class RunRow(TypedDict):
    """A run of the table: a value for each of the columns, null for none."""

    look: Look
    values: dict[str, Any]


class RunsView(TypedDict):
    """Runs, oldest first; `known` names every column that may be asked for."""

    root: str
    columns: list[str]
    known: list[str]
    runs: list[RunRow]


class Differing(TypedDict):
    """A setting by its dotted name, its value, and the preset's; null where a side has none."""

    name: str
    value: Any
    preset: Any


class FileRow(TypedDict):
    """A file of a run, by its path in the run's folder."""

    path: str
    bytes: int


class RunView(TypedDict):
    """A run: its manifest, what it was made from, its figures, its files.

    `differing` holds the settings that are other than those of `preset`, the one that differs
    least. `records` names the figures of metrics.jsonl. `policies` are the policies that can be
    measured: the run's checkpoints and its end. `benchmarks` are those that it was measured on.
    `token_report` says that one is stored.
    """

    id: str
    look: Look
    manifest: Manifest | dict[str, Any]
    status: str
    why_torn: str | None
    preset: str | None
    differing: list[Differing]
    settings: dict[str, Any]
    figures: dict[str, Any]
    speed: dict[str, float]
    records: list[str]
    files: list[FileRow]
    children: list[str]
    policies: list[str]
    benchmarks: list[str]
    rollouts: int
    token_report: bool


class GuideView(TypedDict):
    """What a guide did to tokens of a policy: `report` is the JSON of `sage guide show`."""

    policy: str
    report: dict[str, Any]


class RecordsView(TypedDict):
    """Figures of a run by step: `values` has a list for each name, null where a step has none."""

    run: str
    look: Look
    steps: list[int]
    values: dict[str, list[Any]]


class RolloutsView(TypedDict):
    """Completions that a training kept: the steps that have some, and those of one step."""

    run: str
    steps: list[int]
    step: int | None
    rows: list[dict[str, Any]]


class LedgerView(TypedDict):
    """How prompts were answered: sums of every step, and the rows of one step."""

    run: str
    steps: list[dict[str, int]]
    step: int | None
    rows: list[dict[str, Any]]
