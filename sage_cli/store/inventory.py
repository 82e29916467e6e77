"""The samples of a set by problem and index, with the tally of their grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sage_cli.store.sample_parts import PartFile
from sage_cli.store.tables import as_numpy, empty_table

Integers = np.ndarray[Any, np.dtype[np.int32]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
INVENTORY_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("problem_id", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int32()),
        ("tokens", pa.int32()),
        ("truncated", pa.bool_()),
    ]
)
_RIGHT = "right"


class Inventory:
    """The samples of `parts`, in the parts' order; `damaged` parts count as absent.

    `rows` has S rows, one per stored sample, and the columns of INVENTORY_SCHEMA. `part_S` is each
    sample's part as an index into `parts` (ascending), `problem_S` its problem as an index into
    `problem_ids`, `index_S` its index within the problem. `repeats_S` marks rows whose sample is in
    an earlier row too.
    """

    def __init__(
        self,
        parts: tuple[PartFile, ...] = (),
        rows: pa.Table | None = None,
        damaged: tuple[str, ...] = (),
    ) -> None:
        self.parts, self.damaged = parts, damaged
        self.rows = empty_table(INVENTORY_SCHEMA) if rows is None else rows
        problems = self.rows["problem_id"].combine_chunks()
        self.problem_ids: tuple[str, ...] = tuple(problems.dictionary.to_pylist())
        self.problem_S: Integers = as_numpy(problems.indices)
        self.part_S: Integers = as_numpy(self.rows["part"])
        self.index_S: Integers = as_numpy(self.rows["index"])
        self._code_by_problem = {id_: code for code, id_ in enumerate(self.problem_ids)}
        self._starts_P, self._row_at = self._places()
        # a sample may be in two parts if two processes sampled it at once: their texts are equal,
        # as seeds decide them, and the first row counts
        first_S = self._row_at[self._starts_P[self.problem_S] + self.index_S]
        self.repeats_S: Mask = first_S != np.arange(len(first_S))

    def missing(self, problem_id: str, n: int) -> tuple[int, ...]:
        """Return the indices below `n` that the set lacks for a problem, ascending."""
        held_N = np.zeros(n, dtype=bool)
        code = self._code_by_problem.get(problem_id)
        if code is not None:
            stored = self._row_at[self._starts_P[code] : self._starts_P[code + 1]][:n] >= 0
            held_N[: len(stored)] = stored
        return tuple(np.flatnonzero(~held_N).tolist())

    def count_missing(self, problem_ids: Collection[str], n: int) -> int:
        """Return how many of the samples below `n` of these problems the set lacks."""
        return n * len(problem_ids) - int(self.select(problem_ids, n).sum())

    def select(self, problem_ids: Collection[str] | None = None, n: int | None = None) -> Mask:
        """Return the mask (S,) of samples below `n` of these problems, without repeats."""
        mask_S = ~self.repeats_S
        if problem_ids is not None:
            chosen = frozenset(problem_ids)
            wanted_P = np.array([id_ in chosen for id_ in self.problem_ids], dtype=bool)
            mask_S &= wanted_P[self.problem_S]
        if n is not None:
            mask_S &= self.index_S < n
        return mask_S

    def locate(self, problem_ids: Sequence[str], problem_R: Integers, index_R: Integers) -> Any:
        """Return the rows (R,) of samples `index_R` of problems `problem_ids[problem_R]`, or -1."""
        if not len(self._row_at) or not len(problem_R):
            return np.full(len(problem_R), -1)
        codes = np.array([self._code_by_problem.get(id_, -1) for id_ in problem_ids])
        code_R = codes[problem_R]
        place_R = self._starts_P[code_R] + index_R
        # code -1 reads the last start, which is harmless: the mask removes it
        stored_R = (code_R >= 0) & (index_R >= 0) & (place_R < self._starts_P[code_R + 1])
        return np.where(stored_R, self._row_at[np.where(stored_R, place_R, 0)], -1)

    def _places(self) -> tuple[Any, Any]:
        """Return each problem's first place (P + 1,), and each place's first row or -1.

        A problem has a place for every index up to its largest stored one.
        """
        longest_P = np.full(len(self.problem_ids), -1, dtype=np.int32)
        np.maximum.at(longest_P, self.problem_S, self.index_S)
        starts_P = np.concatenate([[0], np.cumsum(longest_P + 1, dtype=np.int64)])
        row_at = np.full(starts_P[-1], -1, dtype=np.int32)
        place_S = starts_P[self.problem_S] + self.index_S
        # numpy assigns in order, so that of several rows of one place the last assignment stays:
        # reversed, that is the first row
        row_at[place_S[::-1]] = np.arange(len(place_S), dtype=np.int32)[::-1]
        return starts_P, row_at


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over the first N samples of each of P problems.

    `n_P` counts graded samples, `right_P` the correct ones, which `right_PN` marks (False without a
    grade). `statuses`, `truncated` (at the limit of tokens) and `tokens` are over all graded
    samples, `right_truncated` over the correct ones. `lacking` of the N x P samples are not stored
    or not graded: a result over N samples per problem needs it to be 0.
    """

    problem_ids: tuple[str, ...]
    n_P: NDArray[np.int64]
    right_P: NDArray[np.int64]
    right_PN: NDArray[np.bool_]
    statuses: Counter[str]
    truncated: int
    right_truncated: int
    tokens: int
    lacking: int


def tally_of(
    inventory: Inventory,
    status_S: Integers,
    statuses: Sequence[str],
    problem_ids: Sequence[str],
    n: int,
) -> Tally:
    """Return the tally of samples below `n` of these problems.

    `status_S` is each sample's status as an index into `statuses`, -1 without a grade.
    """
    counted = np.flatnonzero(inventory.select(problem_ids, n) & (status_S >= 0))
    status = status_S[counted]
    number = {id_: i for i, id_ in enumerate(problem_ids)}
    numbers = np.array([number.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64)
    problem = numbers[inventory.problem_S[counted]]
    right = status == (statuses.index(_RIGHT) if _RIGHT in statuses else -1)
    right_PN = np.zeros((len(problem_ids), n), dtype=bool)
    right_PN[problem, inventory.index_S[counted]] = right
    by_status = np.bincount(status, minlength=len(statuses)).tolist()
    truncated = as_numpy(inventory.rows["truncated"])[counted]
    return Tally(
        tuple(problem_ids),
        np.bincount(problem, minlength=len(problem_ids)).astype(np.int64),
        right_PN.sum(axis=1, dtype=np.int64),
        right_PN,
        # in one order, whichever status happened to be stored first: reports are hashed as text
        Counter(
            {name: count for name, count in sorted(zip(statuses, by_status, strict=True)) if count}
        ),
        int(truncated.sum()),
        int(truncated[right].sum()),
        int(as_numpy(inventory.rows["tokens"])[counted].sum(dtype=np.int64)),
        n * len(problem_ids) - len(counted),
    )
