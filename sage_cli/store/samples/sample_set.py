"""Sample sets: every completion of one model, template, sampling setting and seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.arrow_tables import as_column
from sage_cli.store.atomic import storing, write_json
from sage_cli.store.identity import key_of
from sage_cli.store.samples.claims import Claims
from sage_cli.store.samples.completion import Completion
from sage_cli.store.samples.index import FILE as INDEX
from sage_cli.store.samples.index import load_index, refreshed, write_index
from sage_cli.store.samples.inventory import Inventory, Mask
from sage_cli.store.samples.parts import (
    DamagedPartError,
    completions_of,
    name_strangers,
    read_part,
    set_aside,
)
from sage_cli.store.samples.writer import SampleWriter

DESCRIPTION = "set.json"
"""A set's identity in full."""
ENGINES = "engines.json"
"""Engine and versions of the writers of a set, each once."""
OWN_NAMES = frozenset({DESCRIPTION, ENGINES, INDEX, "claims", "grades", "scores", "tokens"})
"""Names in a set's folder besides parts."""


@dataclass(frozen=True)
class SampleIdentity:
    """All that decides a completion's distribution; two sets with the same identity are one set.

    `model` is the fingerprint of the model, `template` the prompt template's hash, `sampling` the
    sampling parameters, `seed` the evaluation's. Engine and batch size are not part of it.
    """

    model: str
    template: str
    sampling: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name the set's folder."""
        return key_of(asdict(self))


def stored_seeds(root: Path, identity: SampleIdentity) -> list[SampleIdentity]:
    """Return the identities of the sets below `root` that are `identity` but for the seed."""
    wanted = json.loads(json.dumps(asdict(identity)))
    found = []
    for file in sorted((root / "samples").glob(f"*/{DESCRIPTION}")):
        try:
            described = json_value(file.read_bytes())
        except (OSError, ValueError):  # torn: what it holds is not known
            continue
        if isinstance(described, dict) and {**described, "seed": identity.seed} == wanted:
            found.append(replace(identity, seed=described["seed"]))
    return sorted(found, key=lambda one: one.seed)


class SampleSet:
    """The folder `<root>/samples/<key>/`: Parquet parts beside `set.json`.

    With `read_only`, reading changes neither the index nor a damaged part.
    """

    def __init__(self, root: Path, identity: SampleIdentity, *, read_only: bool = False) -> None:
        self.root, self.identity, self.read_only = root, identity, read_only
        self.folder = root / "samples" / identity.key
        self._known: Inventory | None = None

    def inventory(self) -> Inventory:
        """Return what the set holds; parts that the index lacks are read, damaged ones named.

        Raises StoreError if two parts hold different texts for one sample, or if `set.json`
        describes another set. Other files are ignored with a warning.
        """
        if self._known is None:
            self._is_described()
            name_strangers(self.folder, OWN_NAMES)
        known = self._known or load_index(self.folder)
        self._known = refreshed(self.folder, known)
        if self._known.parts != known.parts and not self.read_only:
            write_index(self.folder, self._known)
        return self._known

    @property
    def engine(self) -> str | None:
        """The engines that sampled the set, such as `transformers 5.17.0`; None if it is empty."""
        names = (engine.get("engine", "") for engine in engines_of(self.folder))
        return ", ".join(dict.fromkeys(names)) or None

    def whole_inventory(self) -> Inventory:
        """Return the inventory for counts. Raises StoreError for a damaged part and sets it aside.

        In a set that is only read, damaged parts count as absent.
        """
        inventory = self.inventory()
        for name in () if self.read_only else inventory.damaged:
            self._read(name)
        return inventory

    def completions(
        self, problem_ids: Collection[str] | None = None, n: int | None = None
    ) -> Iterator[Completion]:
        """Yield the stored completions with index below `n` of these problems, part by part.

        Raises StoreError for a damaged part and sets it aside: a count over fewer samples would be
        wrong.
        """
        inventory = self.whole_inventory()
        for _, rows in self.read(inventory, inventory.select(problem_ids, n)):
            yield from rows

    def read(self, inventory: Inventory, mask_S: Mask) -> Iterator[tuple[Any, list[Completion]]]:
        """Yield row numbers and completions of the rows in `mask_S`, part by part."""
        starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts) + 1))
        for part in np.flatnonzero(np.bincount(inventory.part_S[mask_S])).tolist():
            within = np.flatnonzero(mask_S[starts[part] : starts[part + 1]])
            table = self._read(inventory.parts[part].name).take(as_column(within))
            name = inventory.parts[part].name
            yield starts[part] + within, list(completions_of(table, name))

    def _is_described(self) -> bool:
        """Return True if `set.json` describes this set, False if it is absent or torn.

        Raises StoreError if it describes another set.
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
        """Yield a writer; all added samples are on disk when the block ends, also by an error.

        `on_stored` is called with each part's completions once they are on disk. `chunk` is the
        number of samples to claim at once.
        """
        claims = Claims(self.folder)
        with claims.registered():
            with claims.mutex(), storing(self.folder):
                claims.sweep()
                if not self._is_described():
                    write_json(self.folder / DESCRIPTION, asdict(self.identity))
                engines = engines_of(self.folder)
                if dict(provenance) not in engines:
                    write_json(self.folder / ENGINES, [*engines, dict(provenance)])
            known = self.inventory()
            writer = SampleWriter(self.folder, claims, known, provenance, on_stored, chunk)
            try:
                yield writer
            finally:
                writer.flush()
                self._known = writer.inventory
                if writer.inventory.parts != known.parts:
                    write_index(self.folder, writer.inventory)


def engines_of(folder: Path) -> list[dict[str, str]]:
    """Return the list in `engines.json`; empty if it is absent or torn, as parts record it too."""
    try:
        engines = json_value((folder / ENGINES).read_bytes())
    except (OSError, ValueError):
        return []
    return [e for e in engines if isinstance(e, dict)] if isinstance(engines, list) else []
