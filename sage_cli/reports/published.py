"""The paper's published numbers, for comparison with one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.reports.estimate import Estimate, Scores
from sage_cli.reports.tables import Column, Row, Table


def evaluation_tables() -> Mapping[str, str]:
    """Return the names of the tables of pass@k per benchmark, with their models."""
    return {name: table["model"] for name, table in published()["evaluation"].items()}


def published_scores(table: str) -> Mapping[str, Scores]:
    """Return method -> benchmark -> k -> pass@k with its deviation, of `table1`, 3, 4 or 9."""
    tables = published()["evaluation"]
    if table not in tables:
        raise ConfigurationError(
            f"the paper has no evaluation table '{table}'", f"it has {', '.join(tables)}"
        )
    return {
        method: {
            benchmark: {int(k): Estimate(mean, sd) for k, (mean, sd) in by_k.items()}
            for benchmark, by_k in scores.items()
        }
        for method, scores in tables[table]["rows"].items()
    }


def published_rows(table: str) -> tuple[str, ...]:
    """Return the methods of `table1`, 2, 3, 4, 5 or 9 by their names here; none of `table6`.

    Raises ConfigurationError if the paper has no such table of methods.
    """
    evaluation = published()["evaluation"]
    methods = {name: tuple(printed["rows"]) for name, printed in evaluation.items()}
    methods["table2"] = tuple(next(iter(published()["patterns"]["rows"].values())))
    methods["table5"] = tuple(published()["gradient_norm"])
    methods["table6"] = ()  # cells of a sweep
    if table not in methods:
        raise ConfigurationError(
            f"the paper has no table of methods '{table}'", f"it has {', '.join(sorted(methods))}"
        )
    return methods[table]


def other_table(table: str) -> Table | None:
    """Return `table2`, `table5` or `table6` as published; None for tables of pass@k by method."""
    if table == "table6":
        return _published_sweep()
    if table == "table2":
        columns = published()["patterns"]["rows"]
        rows = {label: [by[label] for by in columns.values()] for label in published_rows(table)}
    elif table == "table5":
        rows = {label: list(by.values()) for label, by in published()["gradient_norm"].items()}
        columns = next(iter(published()["gradient_norm"].values()))
    else:
        return None
    return Table(
        f"Published: {table}, Qwen2.5-Math-7B-Base",
        (Column("model"), *map(Column, columns)),
        tuple(Row((label, *map(Estimate, values))) for label, values in rows.items()),
        (str(published()["source"]),),
    )


def _published_sweep() -> Table:
    sweep = published()["sweep"]
    tau, rho = sweep["chosen"]
    rows = [
        Row((*(Estimate(value, significant=True) for value in cell[:2]), *map(Estimate, cell[2:])))
        for cell in sweep["rows"]
    ]
    chosen = f"the paper takes tau {tau:g}, rho {rho:g}"
    notes = (f"{sweep['benchmark']}, {sweep['seeds']} seeds; {chosen}", str(published()["source"]))
    columns = tuple(map(Column, sweep["columns"]))
    return Table("Published: table6, Qwen2.5-Math-7B-Base", columns, tuple(rows), notes)


@cache
def published() -> Mapping[str, Any]:
    """Return all published numbers, as the file has them.

    `evaluation` (Tables 1, 3, 4, 9: mean and standard deviation by k), `sweep` (Table 6),
    `patterns` (Table 2), `gradient_norm` (Table 5).
    """
    text = files("sage_cli.reports").joinpath("published.json").read_text(encoding="utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables
