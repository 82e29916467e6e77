"""The results of an analysis, by benchmark, item and policy, as tables and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from sage_cli.reports.render import Record, to_records
from sage_cli.reports.table import Column, Measure, Row, Table

Results = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Benchmark -> item -> policy -> value."""


def wide_table(title: str, item: str, results: Results, notes: Sequence[str] = ()) -> Table:
    """An item a row, in sections by benchmark; a policy a column."""
    policies = _policies(results)
    several = len(results) > 1
    columns = (*([Column("benchmark")] if several else []), Column(item), *map(Column, policies))
    rows = tuple(
        Row(
            (*([benchmark] if several else []), name,
             *(values.get(policy, Measure(float("nan"))) for policy in policies)),
            section=benchmark,
        )
        for benchmark, items in results.items()
        for name, values in items.items()
    )  # fmt: skip
    heading = title if several or not results else f"{title} on {next(iter(results))}"
    return Table(heading, columns, rows, tuple(notes))


def long_table(title: str, item: str, results: Results, value: str) -> Table:
    """A value a row, with benchmark, item and policy in columns of their own."""
    columns = tuple(map(Column, ("benchmark", item, "policy", value)))
    rows = tuple(
        Row((benchmark, name, policy, measure))
        for benchmark, items in results.items()
        for name, values in items.items()
        for policy, measure in values.items()
    )
    return Table(title, columns, rows)


def tables_with_differences(
    title: str,
    item: str,
    results: Results,
    differences: Results,
    first: str,
    notes: Sequence[str] = (),
) -> list[Table]:
    """A table of the results, and one of their differences to the policy `first`, if any.

    `notes` stand below the second.
    """
    tables = [wide_table(title, item, results)]
    if _policies(differences):
        tables.append(wide_table(f"less {first}", item, differences, notes))
    return tables


class PerProblem(TypedDict):
    """Means over problems, differences to the first policy, and every problem's values."""

    means: list[Record]
    differences: list[Record]
    problems: list[Record]


def per_problem(item: str, results: Results, differences: Results, sheet: Table) -> PerProblem:
    """The data of an analysis that has a value for each problem."""
    return {
        "means": records(item, results, "mean"),
        "differences": records(item, differences, "difference"),
        "problems": to_records(sheet),
    }


def records(item: str, results: Results, value: str) -> list[Record]:
    """The rows of `long_table` as objects."""
    return to_records(long_table("", item, results, value))


def _policies(results: Results) -> list[str]:
    every = (policy for items in results.values() for values in items.values() for policy in values)
    return list(dict.fromkeys(every))
