"""The table of former names and values of settings, which brings stored documents to today's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_cli.errors import ConfigurationError


@dataclass(frozen=True)
class Former:
    """A setting that earlier releases called otherwise, or some of whose values they did.

    A former name or value is read for ever, wherever it is typed or stored, and it is what is
    hashed: otherwise each stored run would get another id.
    """

    setting: str
    """Today's dotted name, as in `anchor.reference`."""
    section: str
    """The class that has the field."""
    name: str | None = None
    """The field's former name, if it had another one."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Former value -> today's."""

    @property
    def key(self) -> str:
        """The field's name today."""
        return self.setting.rpartition(".")[2]

    @property
    def former(self) -> str:
        """The setting's former dotted name."""
        return f"{self.setting.rpartition('.')[0]}.{self.name or self.key}"


FORMER = (
    Former("anchor.reference", "AnchorSection", values={"base": "pre-sft"}),
    Former("rollout.backend", "RolloutSection", values={"sampler": "builtin"}),
    Former("sampling.backend", "SamplingSection", values={"transformers": "builtin"}),
)
"""A renamed setting or value is one row."""


def today(config: Mapping[str, Any], table: Sequence[Former] = FORMER) -> dict[str, Any]:
    """Return nested settings with today's names and values, so that those of all ages are alike.

    Sections that are missing or of another form are left as they are. Raises ConfigurationError
    for a setting under both of its names.
    """
    current = dict(config)
    for row in table:
        *path, _ = row.setting.split(".")
        sections = [current]
        while path and isinstance(section := sections[-1].get(path[0]), Mapping):
            sections[-1][path.pop(0)] = copied = dict(section)
            sections.append(copied)
        if not path:
            _renew(sections[-1], row)
    return current


def renew(section: Mapping[str, Any], table: Iterable[Former]) -> dict[str, Any]:
    """Return what is given to a section, by today's names; `table` has the rows of its class."""
    current = dict(section)
    for row in table:
        _renew(current, row)
    return current


def today_key(key: str, table: Sequence[Former] = FORMER) -> str:
    """Return the dotted name that a setting has today."""
    return next((row.setting for row in table if row.former == key), key)


def hashed_key(key: str, table: Sequence[Former] = FORMER) -> str:
    """Return the dotted name under which a setting is hashed: its former one, if it has one."""
    return next((row.former for row in table if row.setting == key), key)


def _renew(section: dict[str, Any], row: Former) -> None:
    if row.name is not None and row.name in section:
        if row.key in section:
            raise ConfigurationError(
                f"{row.former} is the former name of {row.setting}, and both are given",
                f"leave out {row.former}",
            )
        section[row.key] = section.pop(row.name)
    value = section.get(row.key)
    if isinstance(value, str) and value in row.values:
        section[row.key] = row.values[value]
