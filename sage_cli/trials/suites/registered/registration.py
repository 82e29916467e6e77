"""A registration: what a suite decides beforehand, as a file with a hash over all of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.store.atomic import storing, write_json
from sage_cli.store.json_files import json_text, read_object

LAYOUT = 1
REMEDY = "take the file as it was committed, or register anew under another name"


class RegisteredReplicate(TypedDict):
    """A replicate: `settings` are those that differ from the method's other replicates.

    `run` is the identity of its run, `measured` and `trained` are hashes of the problems, or of
    what generates them.
    """

    initial_policy: str | None
    seed: int
    settings: dict[str, Any]
    run: str
    measured: str
    trained: str | None


class RegisteredMethod(TypedDict):
    """A method: `settings` are those that differ from the other methods of its suite."""

    settings: dict[str, Any]
    replicates: list[RegisteredReplicate]


class RegisteredSuite(TypedDict):
    """A suite as it is declared, the settings of all methods, and each method's own."""

    name: str
    declaration: dict[str, Any]
    settings: dict[str, Any]
    methods: dict[str, RegisteredMethod]


class Typed(TypedDict):
    """What was typed beside the suite's name."""

    presets: list[str]
    sets: list[str]
    seeds: int | None
    only: list[str]
    initial_policies: int | list[int | str] | None


class Decides(TypedDict):
    """All that decides a study: the suite and what it includes, under what was typed.

    `results` is the version of the code's results, which every identity holds.
    """

    results: int
    typed: Typed
    suites: list[RegisteredSuite]


class RegisteredPower(TypedDict):
    """The power that was planned for.

    `detectable` is the mean difference that `initial_policies` of them find in four of five cases
    if their differences deviate by `deviation`.
    """

    note: str | None
    deviation: float | None
    initial_policies: int | None
    detectable: float | None


class Registration(TypedDict):
    """A registration; `late` names the runs that were there when it was written.

    `hash` is over everything else in the file.
    """

    registration: int
    suite: str
    title: str
    registered: str
    late: list[str]
    initial_policies_there: list[str]
    versions: dict[str, str]
    commit: str | None
    power: RegisteredPower
    decides: Decides
    hash: str


def sealed(content: dict[str, Any]) -> Registration:
    """Return a registration of this content, with its hash."""
    plain = json.loads(json_text({key: v for key, v in content.items() if key != "hash"}))
    return TypeAdapter(Registration).validate_python({**plain, "hash": _hash(plain)})


def is_sealed(registration: Registration) -> bool:
    """Return True if its hash is that of its content."""
    content = {key: value for key, value in registration.items() if key != "hash"}
    return registration["hash"] == _hash(content)


def write_registration(file: Path, registration: Registration) -> None:
    """Write it as JSON that people read. Raises StoreError if the file can't be written."""
    with storing(file):
        write_json(file, registration)


def read_registration(file: Path) -> Registration:
    """Return the registration in `file`, changed afterwards or not.

    Raises StoreError if there is none, or if it isn't one.
    """
    try:
        held = read_object(file, REMEDY)
    except FileNotFoundError:
        raise StoreError(
            f"there is no registration {file}", "write it with sage suite register"
        ) from None
    if held.get("registration") != LAYOUT:
        raise StoreError(f"{file} is no registration of a suite", REMEDY)
    try:
        return TypeAdapter(Registration).validate_python(held)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{file}: {where}: {first['msg'].lower()}", REMEDY) from None


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
