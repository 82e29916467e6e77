"""Sample sets: every completion drawn for one model, template, sampling setting and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.atomic import storing, write_json
from sage_cli.store.claims import Claims
from sage_cli.store.columns import as_column
from sage_cli.store.completion import Completion
from sage_cli.store.index import FILE as INDEX
from sage_cli.store.index import brought_up_to_date, keep_index, load_index
from sage_cli.store.inventory import Inventory, Mask
from sage_cli.store.parts import (
    DamagedPartError,
    completions_of,
    name_strangers,
    read_part,
    set_aside,
)
from sage_cli.store.writer import SampleWriter

DESCRIPTION = "set.json"
"""A set's identity in full."""
ENGINES = "engines.json"
"""Engine and versions of every writer of a set, each once."""
OWN_NAMES = frozenset({DESCRIPTION, ENGINES, INDEX, "claims", "verdicts", "readings"})
"""What a set's folder holds besides parts."""


@dataclass(frozen=True)
class SampleIdentity:
    """What decides a completion's distribution; two sets with the same identity are one set.

    `model` names the model's content, `template` is the prompt template's hash, `sampling` the
    sampling parameters, `seed` the evaluation's. How samples are computed (engine, batch) is not
    part of it.
    """

    model: str
    template: str
    sampling: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name the set's folder."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class SampleSet:
    """The folder `<root>/samples/<key>/`: Parquet parts beside `set.json`.

    With `read_only` a look leaves everything as it is: neither the index nor a damaged part.
    """

    def __init__(self, root: Path, identity: SampleIdentity, *, read_only: bool = False) -> None:
        self.root, self.identity, self.read_only = root, identity, read_only
        self.folder = root / "samples" / identity.key
        self._known: Inventory | None = None

    def inventory(self) -> Inventory:
        """What the set holds; parts that the index doesn't know are read, damaged ones named.

        Raises StoreError when two parts hold different texts for one sample, or when `set.json`
        describes another set. What is no part is passed over with a warning.
        """
        if self._known is None:
            self._is_described()
            name_strangers(self.folder, OWN_NAMES)
        known = self._known or load_index(self.folder)
        self._known = brought_up_to_date(self.folder, known)
        if self._known.parts != known.parts and not self.read_only:
            keep_index(self.folder, self._known)
        return self._known

    @property
    def engine(self) -> str | None:
        """The engines that drew the set, as `transformers 5.17.0`; None where none has."""
        drawn_by = engines_of(self.folder)
        return ", ".join(dict.fromkeys(one.get("engine", "") for one in drawn_by)) or None

    def whole_inventory(self) -> Inventory:
        """The inventory for a number: raises StoreError at a damaged part, which it sets aside.

        Of a set that is only read, damaged parts count as absent.
        """
        inventory = self.inventory()
        for name in () if self.read_only else inventory.damaged:
            self._read(name)
        return inventory

    def completions(
        self, problem_ids: Collection[str] | None = None, n: int | None = None
    ) -> Iterator[Completion]:
        """Stream the stored completions with index below `n` of the given problems, part by part.

        Raises StoreError at a damaged part, which it sets aside: a count over fewer samples would
        be a wrong number.
        """
        inventory = self.whole_inventory()
        for _, rows in self.read(inventory, inventory.select(problem_ids, n)):
            yield from rows

    def read(self, inventory: Inventory, mask_S: Mask) -> Iterator[tuple[Any, list[Completion]]]:
        """The completions of the rows in `mask_S`, with the rows' numbers, part by part."""
        starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts) + 1))
        for part in np.flatnonzero(np.bincount(inventory.part_S[mask_S])).tolist():
            within = np.flatnonzero(mask_S[starts[part] : starts[part + 1]])
            table = self._read(inventory.parts[part].name).take(as_column(within))
            name = inventory.parts[part].name
            yield starts[part] + within, list(completions_of(table, name))

    def _is_described(self) -> bool:
        """Whether `set.json` says what the set is; False where it is absent or torn.

        Raises StoreError where it says that the set is another one.
        """
        try:
            described = json_value((self.folder / DESCRIPTION).read_bytes())
        except (OSError, ValueError):
            return False
        plain = json.loads(json.dumps(asdict(self.identity)))
        differing = [
            key
            for key in plain
            if not isinstance(described, dict) or described.get(key) != plain[key]
        ]
        if differing:
            raise StoreError(
                f"{self.folder / DESCRIPTION} describes another set than its folder's: "
                f"{', '.join(differing)} differ",
                "move the folder elsewhere: its samples may be another model's",
            )
        return True

    def _read(self, name: str) -> Any:
        try:
            return read_part(self.folder / name)
        except DamagedPartError:
            set_aside(self.folder / name)
            raise

    @contextmanager
    def writing(
        self,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None] = lambda _: None,
        chunk: int | None = None,
    ) -> Iterator[SampleWriter]:
        """Be one of the writers; what was added is on disk when the block is left, by error too.

        `on_stored` is called with each part's completions once they are on disk. `chunk` samples
        are claimed at once, where that is said.
        """
        claims = Claims(self.folder)
        with claims.held():
            with claims.mutex(), storing(self.folder):
                claims.sweep()
                if not self._is_described():
                    write_json(self.folder / DESCRIPTION, asdict(self.identity))
                drawn_by = engines_of(self.folder)
                if dict(provenance) not in drawn_by:
                    write_json(self.folder / ENGINES, [*drawn_by, dict(provenance)])
            known = self.inventory()
            writer = SampleWriter(self.folder, claims, known, provenance, on_stored, chunk)
            try:
                yield writer
            finally:
                writer.flush()
                self._known = writer.inventory
                if writer.inventory.parts != known.parts:
                    keep_index(self.folder, writer.inventory)


def engines_of(folder: Path) -> list[dict[str, str]]:
    """What `engines.json` lists; nothing where it is absent or torn: the parts say it too."""
    try:
        found = json_value((folder / ENGINES).read_bytes())
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
