"""Checks of the paper's equations as a document: statements with their errors, and pictures.

Statements and pictures are plain data, as they are in the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Column, Row, Table

PICTURES = ("solutions", "anchors", "support", "estimators", "modes", "off-target")
"""The pictures, in the order of the report."""


def theory_document(
    statements: Sequence[Mapping[str, Any]],
    pictures: Mapping[str, Any],
    tolerance: float,
    provenance: Provenance,
) -> Document:
    """Return statements (the fields of a `StatementJson`) as a table and a sheet, and pictures.

    `pictures` holds the numbers of each of `PICTURES`.
    """
    table = statement_table(statements)
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
        tables=(table,),
        sheets={"theory": table},
        figures=tuple(_figure(name, pictures[name]) for name in PICTURES),
        notes=(
            f"error: the largest distance between two independent computations, or by how much an "
            f"inequality is violated; a statement holds below {tolerance:g}",
            outcome,
            "paper: how the paper's claim fares; the statement is what holds",
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


def _error(statement: Mapping[str, Any]) -> str:
    return f"{statement['error']:.1e}" + ("" if statement["holds"] else " FAILS")


def _figure(name: str, numbers: Mapping[str, Any]) -> Figure:
    def draw(path: Path) -> None:
        from sage_cli.reports.theory_panels import DRAWINGS

        DRAWINGS[name](numbers, path)

    return Figure(f"theory-{name}", draw)
