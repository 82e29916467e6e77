"""What `runs/<id>/manifest.json` says."""

from __future__ import annotations

from typing_extensions import TypedDict


class Surroundings(TypedDict):
    """Where and with what something is computed; no commit where the code is no checkout."""

    versions: dict[str, str]
    commit: str | None
    host: str
    command: str


class Origin(TypedDict, total=False):
    """What a training is made from.

    `parent` is a run's id or a model's name, `parent_weights` its fingerprint, `template` the
    prompt template's hash, `data` the files' versions or a name, `sweep` the one whose trial it is.
    """

    kind: str
    parent: str | None
    parent_weights: str
    seed: int
    template: str
    data: str | list[str]
    sweep: str | None


class Manifest(Origin, total=False):
    """A run: what it is made from, where, and what became of it.

    It was begun first when it was `created`, begun or taken up last when it was `started`, asked
    for again, finished, when it was `asked`. `seconds` are those of all its parts, `weights` the
    fingerprint that its training left.
    """

    id: str
    identity: str | None
    status: str
    reason: str | None
    error: str | None
    created: str
    started: str
    ended: str
    asked: str
    seconds: float
    weights: str
    versions: dict[str, str]
    commit: str | None
    host: str
    command: str
