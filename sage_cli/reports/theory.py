"""Checks of the paper's equations as a document: statements with their errors, and pictures.

Statements and pictures are plain data, as they are in the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Column, Row, Table
from sage_cli.reports.theory_panels import DRAWINGS


def theory_document(
    statements: Sequence[Mapping[str, Any]],
    pictures: Mapping[str, Any],
    tolerance: float,
    provenance: Provenance,
) -> Document:
    """Return statements (the fields of a `StatementJson`) as a table and a sheet, and pictures.

    `pictures` holds the numbers of each of `DRAWINGS`.
    """
    table, steps = statement_table(statements), path_table(pictures["paths"])
    broken = [one["name"] for one in statements if not one["holds"]]
    largest = max(statements, key=lambda one: float(one["error"]))
    outcome = f"failed: {', '.join(broken)}"
    if not broken:
        error = f"{largest['error']:.1e} ({largest['name']})"
        outcome = f"all {len(statements)} hold; the largest error is {error}"
    return Document(
        name="theory",
        title=table.title,
        provenance=provenance,
        data={
            "tolerance": tolerance,
            "holds": not broken,
            "largest_error": largest["error"],
            "statements": list(statements),
            "pictures": pictures,
        },
        tables=(table, steps),
        sheets={"theory": table, "theory-paths": steps},
        figures=tuple(
            Figure(f"theory-{name}", partial(draw, pictures[name]))
            for name, draw in DRAWINGS.items()
        ),
        notes=(
            f"error: the largest distance between two independent computations, or by how much an "
            f"inequality is violated; a statement holds below {tolerance:g}",
            outcome,
            "paper: how the paper's claim fares; the statement is what holds",
            "on the way: the mass of the answer that begins at .005, by exact gradient ascent on "
            "logits in steps of 1; beside it .300 is right, .300 and .395 are wrong",
            "optimum: empty where the objective has none of its own, and what the way left stays",
        ),
    )


def statement_table(statements: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row per statement: equation, sentence, error, the paper's claim."""
    rows = tuple(
        Row((one["equation"], one["name"], one["sentence"], _error(one), one["standing"]))
        for one in statements
    )
    names = ("equation", "statement", "what holds", "error", "paper")
    return Table("The paper's equations, by enumeration", tuple(map(Column, names)), rows)


def path_table(paths: Mapping[str, Any]) -> Table:
    """Return a table of the rare right answer's mass after some numbers of steps, by way."""
    places = [paths["step"].index(step) for step in paths["shown"]]
    rows = tuple(
        Row(
            (
                one["name"],
                f"{one['beta']:g}",
                *(f"{one['mass'][place]:.2g}" for place in places),
                "" if one["optimum"] is None else f"{one['optimum']:.3g}",
            )
        )
        for one in paths["path"]
    )
    names = ("way", "beta", *(f"t = {step}" for step in paths["shown"]), "optimum")
    return Table("A rare right answer on the way, after t steps", tuple(map(Column, names)), rows)


def _error(statement: Mapping[str, Any]) -> str:
    return f"{statement['error']:.1e}" + ("" if statement["holds"] else " FAILS")
