"""Departures of a study from what was registered, each by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from sage_cli.trials.suites.registered.registration import (
    Decides,
    RegisteredReplicate,
    RegisteredSuite,
)

LATER = "decided later"
GONE = "not here"
NONE = "–"
ALL = "all methods"
RESOLVED = (
    "name", "title", "published", "chosen", "includes", "preset", "settings", "methods",
    "protocol", "seeds", "initial_policies",
)  # fmt: skip
"""Keys of a declaration that decide nothing, or that the resolved settings and replicates hold."""

Place = tuple[str | None, int]
"""Initial policy and seed."""
Settings = Mapping[str, Any]


class Departure(TypedDict):
    """A departure: its kind, what departs, and the two values in words."""

    kind: str
    name: str
    registered: str
    now: str


def departures(before: Decides, after: Decides) -> list[Departure]:
    """Return all in which a study is not what was registered."""
    found = []
    if before["results"] != after["results"]:
        found.append(departure("code", "version of results", before["results"], after["results"]))
    then = {one["name"]: one for one in before["suites"]}
    here = {one["name"]: one for one in after["suites"]}
    found += [departure("suite", name, "registered", GONE) for name in then if name not in here]
    found += [departure("suite", name, NONE, LATER) for name in here if name not in then]
    for name in then:
        if name in here:
            found += _declared(then[name], here[name])
            found += _replicates(then[name], here[name])
    return found


def departure(kind: str, name: str, registered: Any, now: Any) -> Departure:
    """Return a departure, with its two values in words."""
    return {"kind": kind, "name": name, "registered": _words(registered), "now": _words(now)}


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or NONE
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(inner)}" for key, inner in value.items())
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _declared(before: RegisteredSuite, after: RegisteredSuite) -> Iterator[Departure]:
    """Yield changes of claims, trades, comparisons, k, the stopping rule and other keys."""
    then, here = before["declaration"], after["declaration"]
    for key in dict.fromkeys((*then, *here)):
        old, new = then.get(key), here.get(key)
        if key in RESOLVED or old == new:
            continue
        if key not in then and not new:  # a key that `sage` has got since, and nothing is said
            continue
        if key in ("claims", "against"):
            kind = "claim" if key == "claims" else "comparison"
            yield from _listed(
                kind, {one: one for one in old or ()}, {one: one for one in new or ()}
            )
        elif key in ("trades", "analyses"):
            kind = "trade" if key == "trades" else "analysis"
            yield from _listed(kind, _by_name(old), _by_name(new))
        elif key == "stop":
            yield from _fields("stopping rule", "stop", old, new)
        else:
            yield departure("k" if key == "k" else "measurement", key, old, new)


def _by_name(listed: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {one["name"]: one for one in listed or ()}


def _listed(kind: str, then: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Departure]:
    for name, old in then.items():
        if name not in here:
            yield departure(kind, name, "registered", GONE)
        elif old != here[name]:
            yield from _fields(kind, name, old, here[name])
    for name in here:
        if name not in then:
            yield departure(kind, name, NONE, LATER)


def _fields(
    kind: str, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[Departure]:
    if old is None or new is None:
        yield departure(kind, name, *((NONE, LATER) if old is None else ("registered", GONE)))
        return
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield departure(kind, f"{name}: {key}", old.get(key), new.get(key))


def _replicates(before: RegisteredSuite, after: RegisteredSuite) -> Iterator[Departure]:
    """Yield changes of methods, initial policies, seeds, settings, problems and identities."""
    then, here = before["methods"], after["methods"]
    yield from _listed("method", dict.fromkeys(then), dict.fromkeys(here))
    yield from _initial_policies(before, after)
    shared = [label for label in then if label in here]
    changed: dict[tuple[str, str, str, str], list[str]] = {}
    for label in shared:
        old, new = _places(before, label), _places(after, label)
        starts = {start for start, _ in old} & {start for start, _ in new}
        seeds = [sorted({seed for start, seed in of if start in starts}) for of in (old, new)]
        if seeds[0] != seeds[1]:
            yield departure("seed", f"training seeds of {label}", len(seeds[0]), len(seeds[1]))
        for place in (one for one in old if one in new):
            for kind, name, *values in _differing(old[place], new[place]):
                key = (kind, name, *map(_words, values))
                changed.setdefault(key, []).append(label)  # type: ignore[arg-type]
    for (kind, name, was, now), labels in changed.items():
        whom = list(dict.fromkeys(labels))
        of = ALL if whom == shared and len(shared) > 1 else ", ".join(whom)
        yield departure(kind, f"{name} ({of})", was, now)


def _differing(
    old: tuple[RegisteredReplicate, Settings], new: tuple[RegisteredReplicate, Settings]
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield (kind, name, registered, now) for all in which a replicate differs.

    The identity of its run is named where nothing else says why it changed. A setting that `sage`
    has got since is no departure as long as that identity is the same.
    """
    (before, then), (after, here) = old, new
    found = []
    same_run = before["run"] == after["run"]
    for key in dict.fromkeys((*then, *here)):
        if same_run and key not in then:
            continue
        if then.get(key) != here.get(key):
            kind = "seed" if key.rpartition(".")[2] == "seed" else "setting"
            found.append((kind, key, then.get(key), here.get(key)))
    start = after["initial_policy"]
    of = "" if start is None else f" of initial policy {start}"
    for which, what in (("measured", "measured problems"), ("trained", "training problems")):
        if before[which] != after[which]:  # type: ignore[literal-required]
            found.append(("data", what + of, before[which], after[which]))  # type: ignore[literal-required]
    if not found and not same_run:
        found.append(("identity", f"run of seed {after['seed']}{of}", before["run"], after["run"]))
    yield from found


def _places(
    suite: RegisteredSuite, label: str
) -> dict[Place, tuple[RegisteredReplicate, dict[str, Any]]]:
    """Return a method's replicates by place, each with all its settings."""
    method = suite["methods"][label]
    shared = {**suite["settings"], **method["settings"]}
    return {
        (one["initial_policy"], one["seed"]): (one, {**shared, **one["settings"]})
        for one in method["replicates"]
    }


def _initial_policies(before: RegisteredSuite, after: RegisteredSuite) -> Iterator[Departure]:
    """Yield a change of the initial policies.

    A stopping rule allows more: those that continue counting, up to its most.
    """
    old, new = _starts(before), _starts(after)
    if old == new:
        return
    stop = before["declaration"].get("stop")
    if stop is not None and new == _continued(old, len(new)) and len(new) <= stop["most"]:
        return
    yield departure("initial policies", "initial policies", old, new)


def _starts(suite: RegisteredSuite) -> list[str | None]:
    methods = suite["methods"].values()
    return list(
        dict.fromkeys(one["initial_policy"] for method in methods for one in method["replicates"])
    )


def _continued(starts: Sequence[str | None], count: int) -> list[str | None] | None:
    """Return `count` initial policies that begin with these and count up from the last."""
    if count < len(starts) or starts[-1] is None or not starts[-1].isdecimal():
        return None
    last = int(starts[-1])
    return [*starts, *(str(last + one) for one in range(1, count - len(starts) + 1))]
