"""The types of `runs/<id>/manifest.json`."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

FINISHED, RUNNING, INTERRUPTED, FAILED = "finished", "running", "interrupted", "failed"
IMPORTED = "imported"
"""The kind of a run that holds samples of another program, and no weights."""
PRUNED = "pruned"
"""An interruption by a sweep, with its reason; the same command resumes the run."""


class Surroundings(TypedDict):
    """Versions, host and command of a computation; `commit` is None outside a checkout."""

    versions: dict[str, str]
    commit: str | None
    host: str
    command: str


class ImportedFrom(TypedDict):
    """The origin of imported samples.

    `score` is the program's name of its verdicts, `settings` what the file says of sampling,
    `unknown` what it doesn't say.
    """

    program: str
    file: str
    sha256: str
    score: str | None
    settings: dict[str, Any]
    unknown: list[str]


class Origin(TypedDict):
    """The origin of a training.

    `parent` is a run's id or a model's name, `parent_weights` its fingerprint, `template` the
    prompt template's hash, `data` the files' versions or a name, `sweep` the sweep's name.
    """

    kind: str
    parent: str | None
    seed: int
    template: str
    parent_weights: NotRequired[str]
    data: NotRequired[str | list[str]]
    sweep: NotRequired[str | None]


class Manifest(Origin, Surroundings):
    """A run: its origin, surroundings and status.

    It was `created` at its first start, `started` at its last start or resumption, and `asked` for
    again when it was finished already. `seconds` sums all its parts, `weights` is the fingerprint
    of the trained model, `imported` the origin of samples that another program took.
    """

    id: str
    identity: str | None
    status: str
    reason: str | None
    error: str | None
    created: str
    started: str
    ended: NotRequired[str]
    asked: NotRequired[str]
    seconds: NotRequired[float]
    weights: NotRequired[str]
    imported: NotRequired[ImportedFrom]
