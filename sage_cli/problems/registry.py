"""Sources of problems by name: published data sets, generators, plug-ins, files."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.files import SUFFIXES
from sage_cli.problems.generated.arithmetic import Arithmetic
from sage_cli.problems.generated.generator import SPLITS, Generated, Generator
from sage_cli.problems.generated.knights_knaves import KnightsKnaves
from sage_cli.problems.published import PUBLISHED
from sage_cli.settings.base import Section
from sage_cli.settings.plugins import Plugin, plugins
from sage_cli.settings.sections.data import GENERATORS_GROUP

BUILT_IN: tuple[type[Generator], ...] = (Arithmetic, KnightsKnaves)
"""A new one is a file or folder of `generated/`, a section of `data` and a name here."""


def plugin_generators() -> list[Plugin]:
    """The generators of installed packages. Raises ConfigurationError for one that is none."""
    registered = plugins(GENERATORS_GROUP)
    for plugin in registered:
        if fault := _fault(plugin.name, plugin.object):
            raise plugin.refused(
                fault, "register a subclass of sage_cli.problems.generated.generator.Generator"
            )
    return registered


def _fault(name: str, registered: object) -> str | None:
    """The reason why an object can't serve as the generator `name`; None if it can."""
    if not (isinstance(registered, type) and issubclass(registered, Generator)):
        return f"is a {type(registered).__name__} and not a class of generators"
    if inspect.isabstract(registered):
        return f"lacks {', '.join(sorted(registered.__abstractmethods__))}"
    called = getattr(registered, "name", None)
    if called != name:
        return f"calls itself {called!r}"
    if not isinstance(getattr(registered, "title", None), str):
        return "has no title"
    if not registered.splits or set(registered.splits) - set(SPLITS):
        return f"has the splits {registered.splits!r}: they can be {', '.join(SPLITS)}"
    if not (isinstance(registered.settings, type) and issubclass(registered.settings, Section)):
        return "has settings that are no sage_cli.settings.base.Section"
    return None


BENCHMARKS_GROUP = "sage_cli.benchmarks"
"""Entry points of other packages: a `DataSet`, a `Group`, or a list of them."""

Entry = DataSet | Group | Generated
Member = Path | DataSet | Generated
"""What problems are read from in the end: a file, a data set, a split of a generator."""

_SHIPPED: Mapping[str, Entry] = {
    **PUBLISHED,
    **{entry.name: entry for kind in BUILT_IN for entry in kind.entries()},
}


def entries() -> dict[str, Entry]:
    """All that is known by name: what `sage` ships and what installed packages register.

    Raises ConfigurationError that names the plug-in that isn't what it should be.
    """
    known = dict(_SHIPPED)
    for plugin in plugin_generators():
        with plugin.blamed():
            added = plugin.object.entries()
        _add(known, plugin, added)
    registered = plugins(BENCHMARKS_GROUP)
    for plugin in registered:
        _add(known, plugin, _declared(plugin))
    for plugin in registered:
        _check_groups(known, plugin)
    return known


def find(name: str) -> Entry:
    """The entry called `name`; DataError with the nearest name when there is none."""
    if name in _SHIPPED:
        return _SHIPPED[name]
    known = entries()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    raise DataError(
        f"unknown benchmark '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"known: {', '.join(known)}; or a path that ends in {', '.join(SUFFIXES)}",
    )


def members(name: str, split: str | None = None) -> list[Member]:
    """The sources that `name` stands for: the file, the entry, or the members of a group.

    Of a data set, `split` takes another of its splits on the Hub than the declared ones. Raises
    DataError for an unknown name, and for the split of what is no data set.
    """
    entry = Path(name) if is_file_name(name) else find(name)
    if split is not None:
        if not isinstance(entry, DataSet):
            raise DataError(
                f"the split '{split}' of {name} is asked for, and only data sets of the Hub have "
                "splits to choose from",
                "leave out the split",
            )
        return [entry.at(split)]
    if isinstance(entry, Path):
        return [entry]
    if isinstance(entry, Group):
        return [member for part in entry.members for member in members(part)]
    return [entry]


def require_known_revisions(revisions: Collection[str]) -> None:
    """Raise DataError if a name in `data.revisions` is that of no data set of the Hub."""
    for name in revisions:
        if not isinstance(find(name), DataSet):
            raise DataError(
                f"data.revisions names {name}, which is no data set of the Hub",
                "name data sets of `sage data list`, each part of a group by itself",
            )


def trained_on(name: str) -> str:
    """The name that training on `name` reads: a generator's training split where it has one."""
    kind = generator_of(name)
    return kind.name + SPLITS["training"] if kind and "training" in kind.splits else name


def generator_of(name: str) -> type[Generator] | None:
    """The generator that `name`, or its training split, is called by; None for all other names."""
    entry = generated(name)
    return entry.generator if entry is not None and entry.split != "validation" else None


def generated(name: str) -> Generated | None:
    """The generator's split that `name` is; None for files, data sets and groups."""
    entry = None if is_file_name(name) else find(name)
    return entry if isinstance(entry, Generated) else None


def is_file_name(name: str) -> bool:
    """Return True if `name` is the path of a file rather than a registered name."""
    return name.endswith(SUFFIXES)


def _declared(plugin: Plugin) -> list[DataSet | Group]:
    registered = plugin.object
    declared = [registered] if isinstance(registered, DataSet | Group) else registered
    listed = list(declared) if isinstance(declared, Collection) else [declared]
    for entry in listed:
        if not isinstance(entry, DataSet | Group):
            raise plugin.refused(
                f"is or holds a {type(entry).__name__}",
                "register a DataSet or Group of sage_cli.problems.data_set, or a list of them",
            )
    return listed


def _add(known: dict[str, Entry], plugin: Plugin, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.name in known:
            raise plugin.refused(
                f"takes the name '{entry.name}', which another data set has", "choose another name"
            )
        if is_file_name(entry.name) or "," in entry.name or not entry.name.strip():
            raise plugin.refused(
                f"names a data set '{entry.name}'", "choose a name that is no path and no list"
            )
        known[entry.name] = entry


def _check_groups(known: Mapping[str, Entry], plugin: Plugin) -> None:
    for entry in _declared(plugin):
        for member in entry.members if isinstance(entry, Group) else ():
            if isinstance(known.get(member), Group | None):
                raise plugin.refused(
                    f"puts '{member}' into the group '{entry.name}'",
                    "a group's members are the names of data sets, none of them a group",
                )
