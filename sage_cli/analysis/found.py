"""What an analysis found, by benchmark, item and policy, as tables, records and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from sage_cli.reports.render import Record, to_records
from sage_cli.reports.table import Column, Measure, Row, Table

Found = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Benchmark -> item -> policy -> value."""


def beside(title: str, item: str, found: Found, notes: Sequence[str] = ()) -> Table:
    """For people: an item a row, in sections by benchmark; a policy a column."""
    policies = _policies(found)
    several = len(found) > 1
    columns = (*([Column("benchmark")] if several else []), Column(item), *map(Column, policies))
    rows = tuple(
        Row(
            (*([benchmark] if several else []), name,
             *(values.get(policy, Measure(float("nan"))) for policy in policies)),
            section=benchmark,
        )
        for benchmark, items in found.items()
        for name, values in items.items()
    )  # fmt: skip
    heading = title if several or not found else f"{title} on {next(iter(found))}"
    return Table(heading, columns, rows, tuple(notes))


def below(title: str, item: str, found: Found, value: str) -> Table:
    """For programs: a value a row, with benchmark, item and policy in columns of their own."""
    columns = tuple(map(Column, ("benchmark", item, "policy", value)))
    rows = tuple(
        Row((benchmark, name, policy, measure))
        for benchmark, items in found.items()
        for name, values in items.items()
        for policy, measure in values.items()
    )
    return Table(title, columns, rows)


class PerProblem(TypedDict):
    """Means over problems, differences to the first policy, and every problem's values."""

    means: list[Record]
    differences: list[Record]
    problems: list[Record]


def per_problem(item: str, found: Found, gaps: Found, sheet: Table) -> PerProblem:
    """The data of an analysis that has a value for each problem."""
    return {
        "means": records(item, found, "mean"),
        "differences": records(item, gaps, "difference"),
        "problems": to_records(sheet),
    }


def records(item: str, found: Found, value: str) -> list[Record]:
    """The rows of `below` as objects."""
    return to_records(below("", item, found, value))


def _policies(found: Found) -> list[str]:
    every = (policy for items in found.values() for values in items.values() for policy in values)
    return list(dict.fromkeys(every))
