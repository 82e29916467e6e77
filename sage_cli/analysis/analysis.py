"""The contract of an analysis: its inputs, its options, what it declares, its tables of means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sage_cli.analysis.graded_samples import Answers, Detector
from sage_cli.errors import StoreError
from sage_cli.grading.grades import status_in_words
from sage_cli.metrics import Counts
from sage_cli.metrics.differences import gap_interval
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Interval, Resampling, gaffke, studentised
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import Record, to_records
from sage_cli.reports.tables import Cell, Column, Row, Table, columns

Option = Literal["delta", "patterns", "alpha", "survival"]
Scorer = Literal["base", "self"]
Results = Mapping[str, Mapping[str, Mapping[str, Estimate]]]
"""Benchmark -> item -> policy -> value."""
NONE = Estimate(float("nan"))
PRINTED = {
    "right if taken": "correct if taken",
    "share of right ones": "share of the correct",
    "right ones": "correct ones",
    "8 right": "8 correct",
    "groups all right": "groups all correct",
    "tokens of right completions": "tokens of correct completions",
    " less ": " − ",
}
"""Words in the stored names of items -> words that people read."""


@dataclass(frozen=True)
class Options:
    """Confidence and resamples of intervals, and the options of single analyses.

    Deltas and `survival` are of `support`, detectors of `patterns`, alphas of `sharpening`.
    """

    confidence: float = 0.95
    resamples: int = 2000
    deltas: tuple[float, ...] = (0.0, 0.01, 0.1, 0.5)
    detectors: tuple[Detector, ...] = ()
    alphas: tuple[float, ...] = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
    survival: bool = False

    @property
    def resampling(self) -> Resampling:
        """Return how every interval of an analysis is resampled."""
        return Resampling(self.confidence, self.resamples)


@dataclass(frozen=True)
class TrainedRun:
    """A run's id, its records, counts of its checkpoints by benchmark and step, and its ledger.

    `completions` reads those that it kept, which are many.
    """

    run: str
    records: Sequence[Mapping[str, Any]]
    measured: Mapping[str, Mapping[int, Counts]] = field(default_factory=dict)
    ledger: pa.Table | None = None
    completions: Callable[[], Sequence[Any] | pa.Table] = tuple

    def require_ledger(self) -> pa.Table:
        """Return the ledger. Raises StoreError if there is none."""
        if self.ledger is None or not len(self.ledger):
            raise StoreError(
                f"{self.run} has no rollout log, because it does not sample in "
                "training or was made by an older release",
                "train it again with --fresh, which deletes the stored run",
            )
        return self.ledger


@dataclass(frozen=True)
class Inputs:
    """The inputs of an analysis, in the order in which policies are shown.

    `answers` are by benchmark, the base's first if the analysis needs a base; `trained` is by the
    run's label. `readings` are the base's answers as each reader scores them at temperature 1, the
    base itself first. Only what the analysis declares is there.
    """

    answers: Mapping[str, tuple[Answers, ...]] = field(default_factory=dict)
    trained: Mapping[str, TrainedRun] = field(default_factory=dict)
    readings: Mapping[str, tuple[Answers, ...]] = field(default_factory=dict)
    options: Options = Options()
    provenance: Provenance = field(default_factory=Provenance)

    def each(self) -> Iterator[Answers]:
        """Yield each policy's answers, benchmark after benchmark."""
        for answers in self.answers.values():
            yield from answers

    @property
    def policies(self) -> tuple[str, ...]:
        """Return the policies' labels."""
        first: tuple[Answers, ...] = next(iter(self.answers.values()), ())
        return tuple(answers.policy for answers in first)


@dataclass(frozen=True)
class Analysis:
    """A pure function `compute` of inputs; `says` is a sentence about its result.

    It needs graded samples, or with `records` the runs' training records; with `base` also those
    of the base. `scorer` loads a model: the base or the policy itself (`self`) computes surprisal
    and entropy of completions; results are stored. `options` are those that it uses.

    `readers` says who reads the base's samples at temperature 1: all policies if `survival` is
    asked for, or the base, which then must be sampled at temperature 1 and without cuts.
    """

    name: str
    says: str
    compute: Callable[[Inputs], Document]
    records: bool = False
    base: bool = False
    scorer: Scorer | None = None
    options: frozenset[Option] = frozenset()
    readers: Literal["base", "all if survival"] | None = None


def share_over_problems(share_P: ArrayLike, options: Options) -> Estimate:
    """Return the mean of shares, each from 0 to 1, with Gaffke's interval."""
    values_P1 = _known(share_P)
    if not len(values_P1):
        return Estimate(float("nan"))
    return _measure(values_P1, gaffke(values_P1, (0, 1), options.resampling))


def mean_over_problems(value_P: ArrayLike, options: Options, *, signed: bool = False) -> Estimate:
    """Return the mean of values without bounds, with a bootstrap-t interval."""
    values_P1 = _known(value_P)
    if len(values_P1) < 2 or np.ptp(values_P1) == 0:
        mean = float(values_P1.mean()) if len(values_P1) else float("nan")
        return Estimate(mean, signed=signed)
    return _measure(values_P1, studentised(values_P1, options.resampling), signed=signed)


def mean_gap(value_P: ArrayLike, base_P: ArrayLike, options: Options) -> Estimate:
    """Return the mean paired difference of values without bounds."""
    return mean_over_problems(np.subtract(value_P, base_P), options, signed=True)


def share_gap(share_P: ArrayLike, base_P: ArrayLike, options: Options) -> Estimate:
    """Return the mean paired difference of shares on problems where both are defined."""
    gap_P1 = _known(np.asarray(share_P, float) - np.asarray(base_P, float))
    if not len(gap_P1):
        return Estimate(float("nan"), signed=True)
    return _measure(gap_P1, gap_interval(gap_P1, options.resampling), signed=True)


def by_problem(
    ids: Sequence[str], values: Iterable[tuple[str, float]]
) -> tuple[list[FloatArray], FloatArray]:
    """Return (problem id, value) pairs as an array per problem of `ids`, and their means.

    NaN values are left out; the mean of no value is NaN.
    """
    grouped: dict[str, list[float]] = {id_: [] for id_ in ids}
    for id_, value in values:
        if not np.isnan(value):
            grouped[id_].append(value)
    arrays = [np.array(group, float) for group in grouped.values()]
    return arrays, np.array([array.mean() if len(array) else np.nan for array in arrays], float)


def _known(value_P: ArrayLike) -> np.ndarray:
    """Return the defined values as a column, shape (P, 1)."""
    values_P = np.asarray(value_P, float)
    return values_P[~np.isnan(values_P), None]


def _measure(values_P1: np.ndarray, band: Interval, *, signed: bool = False) -> Estimate:
    """Return a mean with its interval, unless that is infinite."""
    low, high = float(band.low_K[0]), float(band.high_K[0])
    interval = (low, high) if np.isfinite([low, high]).all() else None
    return Estimate(float(values_P1.mean()), interval=interval, signed=signed)


def printed(name: str) -> str:
    """Return the name of an item as people read it; JSON and CSV keep the stored one."""
    for stored, shown in PRINTED.items():
        name = name.replace(stored, shown)
    return status_in_words(name)


def wide_table(title: str, item: str, results: Results, notes: Sequence[str] = ()) -> Table:
    """Return an item a row, in sections by benchmark, and a policy a column."""
    policies = _policies(results)
    several = len(results) > 1
    heads = (
        *([Column("benchmark")] if several else []),
        Column(item),
        *(Column(policy, label=printed(policy)) for policy in policies),
    )
    rows = []
    for benchmark, items in results.items():
        for name, values in items.items():
            cells: list[Cell] = [printed(name), *(values.get(policy, NONE) for policy in policies)]
            rows.append(Row((*([benchmark] if several else []), *cells), section=benchmark))
    heading = title if several or not results else f"{title} on {next(iter(results))}"
    return Table(heading, heads, tuple(rows), tuple(notes))


def printed_table(table: Table) -> Table:
    """Return a table with the names of items in its cells as people read them."""
    rows = (
        Row(tuple(printed(c) if isinstance(c, str) else c for c in row.cells), row.section)
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))


def long_table(item: str, results: Results, value: str) -> Table:
    """Return a value a row, with benchmark, item and policy in columns of their own."""
    rows = tuple(
        Row((benchmark, name, policy, measure))
        for benchmark, items in results.items()
        for name, values in items.items()
        for policy, measure in values.items()
    )
    return Table(item, columns(f"benchmark, {item}, policy, {value}"), rows)


def records(item: str, results: Results, value: str) -> list[Record]:
    """Return the rows of `long_table` as objects."""
    return to_records(long_table(item, results, value))


@dataclass
class PolicyMeans:
    """Means over problems by benchmark, `item` and policy, and differences to the first policy.

    With `shares`, values are between 0 and 1, and so are their intervals.
    """

    item: str
    options: Options
    shares: bool = True
    means: dict[str, dict[str, dict[str, Estimate]]] = field(default_factory=dict)
    differences: dict[str, dict[str, dict[str, Estimate]]] = field(default_factory=dict)

    def add(self, benchmark: str, name: str, values: Mapping[str, ArrayLike]) -> None:
        """Add an item from policy -> value of each problem, NaN for none; first policy first."""
        mean = share_over_problems if self.shares else mean_over_problems
        gap = share_gap if self.shares else mean_gap
        first, *others = values
        self.means.setdefault(benchmark, {})[name] = {
            policy: mean(value_P, self.options) for policy, value_P in values.items()
        }
        self.differences.setdefault(benchmark, {})[name] = {
            policy: gap(values[policy], values[first], self.options) for policy in others
        }

    def tables(self, title: str, notes: Sequence[str] = ()) -> tuple[Table, ...]:
        """Return a table of means, and one of differences, with `notes`, if there are any."""
        table = wide_table(title, self.item, self.means)
        if not _policies(self.differences):
            return (table,)
        first = _policies(self.means)[0]
        return table, wide_table(f"difference from {first}", self.item, self.differences, notes)

    def sheet(self, value: str) -> Table:
        """Return the means as rows of a CSV file."""
        return long_table(self.item, self.means, value)

    def records(self, value: str) -> list[Record]:
        """Return the means as objects."""
        return to_records(self.sheet(value))

    def difference_records(self) -> list[Record]:
        """Return the differences as objects."""
        return records(self.item, self.differences, "difference")

    def per_problem(self, sheet: Table) -> dict[str, list[Record]]:
        """Return the data of an analysis with a `sheet` of every problem's values."""
        differences = self.difference_records()
        problems = to_records(sheet)
        return {"means": self.records("mean"), "differences": differences, "problems": problems}


def _policies(results: Results) -> list[str]:
    values = [values for items in results.values() for values in items.values()]
    return list(dict.fromkeys(policy for by_policy in values for policy in by_policy))
