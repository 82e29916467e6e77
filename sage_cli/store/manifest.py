"""What `runs/<id>/manifest.json` says."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

FINISHED, RUNNING, INTERRUPTED, FAILED = "finished", "running", "interrupted", "failed"
PRUNED = "pruned"
"""An interruption that a sweep asked for, with its reason; the same command goes on all the same.
"""


class Surroundings(TypedDict):
    """Where and with what something is computed; no commit where the code is no checkout."""

    versions: dict[str, str]
    commit: str | None
    host: str
    command: str


class Origin(TypedDict):
    """What a training is made from.

    `parent` is a run's id or a model's name, `parent_weights` its fingerprint, `template` the
    prompt template's hash, `data` the files' versions or a name, `sweep` the one that trained it.
    """

    kind: str
    parent: str | None
    seed: int
    template: str
    parent_weights: NotRequired[str]
    data: NotRequired[str | list[str]]
    sweep: NotRequired[str | None]


class Manifest(Origin, Surroundings):
    """A run: what it is made from, where, and what became of it.

    It was `created` when it was begun first, `started` when it was begun or taken up last, and
    `asked` for again when it was finished already. `seconds` are those of all its parts, `weights`
    the fingerprint that its training left.
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
