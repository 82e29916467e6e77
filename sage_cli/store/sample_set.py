"""Sample sets: the samples of one policy on one benchmark with one seed."""

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
from sage_cli.store.claims import Claims
from sage_cli.store.completion import Completion
from sage_cli.store.files import storing
from sage_cli.store.inventory import Inventory, Mask
from sage_cli.store.inventory_index import INDEX_FILE, load_index, refreshed, write_index
from sage_cli.store.json_files import (
    CorruptFileError,
    read_object,
    warn_of_corrupt_file,
    warn_once,
    write_json,
    write_object,
)
from sage_cli.store.result_hash import key_of
from sage_cli.store.sample_parts import (
    DamagedPartError,
    completions_of,
    name_strangers,
    read_part,
    set_aside,
)
from sage_cli.store.sample_writer import SampleWriter
from sage_cli.store.tables import as_column

DESCRIPTION = "set.json"
"""A set's identity in full."""
ENGINES = "engines.json"
"""Engine and versions of the writers of a set, each once."""
OWN_NAMES = frozenset({DESCRIPTION, ENGINES, INDEX_FILE, "claims", "grades", "scores", "tokens"})
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
    # Through JSON and back, as the stored one has come: tuples are lists there.
    expected = json.loads(json.dumps(asdict(identity)))
    identities = []
    for file in sorted((root / "samples").glob(f"*/{DESCRIPTION}")):
        try:
            described = json_value(file.read_bytes())
        except (OSError, ValueError):  # corrupt: what it holds is not known
            continue
        if isinstance(described, dict) and {**described, "seed": identity.seed} == expected:
            identities.append(replace(identity, seed=described["seed"]))
    return sorted(identities, key=lambda of_seed: of_seed.seed)


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
        earlier = self._known or load_index(self.folder)
        self._known = refreshed(self.folder, earlier)
        for name in self._known.damaged:
            warn_once(f"{self.folder / name} is damaged: its samples count as missing")
        if self._known.parts != earlier.parts and not self.read_only:
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
        # The rows of a part are adjacent in the inventory, so that `part_S` is sorted and each part
        # is read once.
        starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts) + 1))
        for part in np.flatnonzero(np.bincount(inventory.part_S[mask_S])).tolist():
            within = np.flatnonzero(mask_S[starts[part] : starts[part + 1]])
            table = self._read(inventory.parts[part].name).take(as_column(within))
            name = inventory.parts[part].name
            yield starts[part] + within, list(completions_of(table, name))

    def _is_described(self) -> bool:
        """Return True if `set.json` describes this set, False if it is absent or corrupt.

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
        # The folder's name is a hash of the identity, so this happens only to folders that were
        # renamed or edited by hand; counting another model's samples would be the worst of all
        # errors here.
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
    ) -> Iterator[SampleWriter]:
        """Yield a writer; all added samples are on disk when the block ends, also by an error.

        `on_stored` is called with each part's completions once they are on disk.
        """
        claims = Claims(self.folder)
        with claims.registered():
            with claims.mutex(), storing(self.folder):
                # Under the mutex no writer can begin meanwhile, whose temporary file would be taken
                # for a leftover.
                claims.sweep()
                if not self._is_described():
                    write_json(self.folder / DESCRIPTION, asdict(self.identity))
                engines = engines_of(self.folder)
                if dict(provenance) not in engines:
                    write_object(self.folder / ENGINES, {"engines": [*engines, dict(provenance)]})
            earlier = self.inventory()
            writer = SampleWriter(self.folder, claims, earlier, provenance, on_stored)
            try:
                yield writer
            finally:
                writer.flush()
                # Also after an error: an interrupted evaluation has its samples on disk, and the
                # next one finds them in the index.
                self._known = writer.inventory
                if writer.inventory.parts != earlier.parts:
                    write_index(self.folder, writer.inventory)


def engines_of(folder: Path) -> list[dict[str, str]]:
    """Return the engines in `engines.json`; none if it is absent, or corrupt, which is named."""
    try:
        engines = read_object(folder / ENGINES, "remove it: the parts name their engines, too")
    except FileNotFoundError:
        return []
    except CorruptFileError as error:
        warn_of_corrupt_file(error)
        return []
    return list(engines.get("engines", ()))
