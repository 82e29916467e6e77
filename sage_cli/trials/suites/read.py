"""Suites by name or file, with those that they include, after all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sage_cli.errors import ConfigurationError
from sage_cli.reports.tables.published import published_rows
from sage_cli.settings.presets import read_yaml, shipped
from sage_cli.trials.suites.declaration import (
    BASE,
    Analysis,
    AnalysisOptions,
    Method,
    Protocol,
    Suite,
)

_BELOW: Mapping[str, type[BaseModel]] = {
    "methods": Method,
    "protocol": Protocol,
    "analyses": Analysis,
    "options": AnalysisOptions,
}


def suite_names() -> list[str]:
    """Names of the shipped suites."""
    return sorted((path.stem for path in shipped("configs/suites").glob("*.yaml")), key=_by_number)


def read_suite(name: str) -> Suite:
    """The suite called `name`: a shipped one, or that of a YAML file.

    Raises ConfigurationError with all that is wrong with it.
    """
    path = _file(name)
    values = {"name": path.stem, **read_yaml(path)}
    try:
        suite = Suite.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(
            "\n".join(f"suite {path.stem}: {_sentence(one)}" for one in error.errors()),
            "docs/suites.md has every key of a suite",
        ) from None
    _require_published(suite)
    return suite


def with_included(name: str, above: Sequence[str] = ()) -> list[Suite]:
    """The suite and all that it includes, each once, the included ones first.

    Raises ConfigurationError for a cycle.
    """
    suite = read_suite(name)
    if suite.name in above:
        raise ConfigurationError(
            f"suites include each other: {' → '.join((*above, suite.name))}",
            "leave one of them out of the other's `includes`",
        )
    found: dict[str, Suite] = {}
    for included in suite.includes:
        found |= {one.name: one for one in with_included(included, (*above, suite.name))}
    return [*found.values(), suite]


def _file(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    known = suite_names()
    if name not in known:
        raise ConfigurationError(
            f"there is no suite '{name}'; there are {', '.join(known)}",
            _meant(name, known) or "or give the path of a YAML file",
        )
    return shipped("configs/suites") / f"{name}.yaml"


def _require_published(suite: Suite) -> None:
    """Raise ConfigurationError for a method without a row in the published table."""
    if suite.published is None:
        return
    rows = published_rows(suite.published)
    # Table 3 repeats the base of Table 1
    if lacking := [label for label in suite.methods if label not in (*rows, BASE)]:
        raise ConfigurationError(
            f"suite {suite.name}: {suite.published} has no row '{lacking[0]}'; it has "
            f"{', '.join(rows)}",
            _meant(lacking[0], rows)
            or "name the method as the table does, or leave out `published`",
        )


def _sentence(complaint: Any) -> str:
    """A complaint of pydantic as a sentence, with the nearest name for an unknown key."""
    path = [str(part) for part in complaint["loc"]]
    where = ".".join(path)
    if complaint["type"] == "extra_forbidden":
        above = [part for part in path[:-1] if not part.isdecimal()]
        named = above[-1] if above[:1] == ["analyses"] else "".join(above[:1])
        model = _BELOW.get(named, Suite)
        known = list(model.model_fields)
        meant = _meant(path[-1], known) or f"it has {', '.join(known)}"
        return f"{'.'.join(path[:-1]) or 'a suite'} has no '{path[-1]}': {meant}"
    if complaint["type"] != "value_error":
        return f"{where} is {complaint.get('input')!r}: {complaint['msg'].lower()}"
    message = str(complaint["ctx"]["error"])
    cause, _, known_names = message.partition(", known: ")
    given = cause.rpartition(" '")[2].rstrip("'")
    meant = _meant(given, known_names.split(", ")) if known_names else ""
    return f"{where}: {cause}".removeprefix(": ") + (f"; {meant}" if meant else "")


def _meant(given: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


def _by_number(name: str) -> tuple[str, int]:
    """A key that sorts `table2` before `table10`."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
