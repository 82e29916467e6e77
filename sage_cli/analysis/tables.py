"""The results of an analysis, by benchmark, item and policy, as tables and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Options
from sage_cli.analysis.means import mean_gap, mean_over_problems, share_gap, share_over_problems
from sage_cli.reports.tables.render import Record, to_records
from sage_cli.reports.tables.table import Cell, Column, Measure, Row, Table, columns

Results = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Benchmark -> item -> policy -> value."""
NONE = Measure(float("nan"))


def wide_table(title: str, item: str, results: Results, notes: Sequence[str] = ()) -> Table:
    """Return an item a row, in sections by benchmark, and a policy a column."""
    policies = _policies(results)
    several = len(results) > 1
    heads = (*([Column("benchmark")] if several else []), Column(item), *map(Column, policies))
    rows = []
    for benchmark, items in results.items():
        for name, values in items.items():
            cells: list[Cell] = [name, *(values.get(policy, NONE) for policy in policies)]
            rows.append(Row((*([benchmark] if several else []), *cells), section=benchmark))
    heading = title if several or not results else f"{title} on {next(iter(results))}"
    return Table(heading, heads, tuple(rows), tuple(notes))


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


class PerProblem(TypedDict):
    """Means over problems, differences to the first policy, and every problem's values."""

    means: list[Record]
    differences: list[Record]
    problems: list[Record]


@dataclass
class PolicyMeans:
    """Means over problems by benchmark, `item` and policy, and differences to the first policy.

    With `shares`, values are between 0 and 1, and so are their intervals.
    """

    item: str
    options: Options
    shares: bool = True
    means: dict[str, dict[str, dict[str, Measure]]] = field(default_factory=dict)
    differences: dict[str, dict[str, dict[str, Measure]]] = field(default_factory=dict)

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

    def tables(
        self, title: str, notes: Sequence[str] = (), heading: str | None = None
    ) -> tuple[Table, ...]:
        """Return a table of means, and one of differences, with `notes`, if there are any."""
        heading = heading or self.item
        table = wide_table(title, heading, self.means)
        if not _policies(self.differences):
            return (table,)
        first = _policies(self.means)[0]
        return table, wide_table(f"less {first}", heading, self.differences, notes)

    def sheet(self, value: str) -> Table:
        """Return the means as rows of a CSV file."""
        return long_table(self.item, self.means, value)

    def records(self, value: str) -> list[Record]:
        """Return the means as objects."""
        return to_records(self.sheet(value))

    def difference_records(self) -> list[Record]:
        """Return the differences as objects."""
        return records(self.item, self.differences, "difference")

    def per_problem(self, sheet: Table) -> PerProblem:
        """Return the data of an analysis with a `sheet` of every problem's values."""
        differences = self.difference_records()
        problems = to_records(sheet)
        return {"means": self.records("mean"), "differences": differences, "problems": problems}


def _policies(results: Results) -> list[str]:
    values = [values for items in results.values() for values in items.values()]
    return list(dict.fromkeys(policy for by_policy in values for policy in by_policy))
