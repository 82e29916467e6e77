"""The tabular laboratory as a document: statements with their errors, and pictures.

What the laboratory found comes as plain data, as it stands in the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Column, Row, Table

PICTURES = ("solutions", "anchors", "support", "estimators", "modes", "off-target")
"""The pictures, in the order in which they are looked at."""


def theory_document(
    statements: Sequence[Mapping[str, Any]],
    pictures: Mapping[str, Any],
    tolerance: float,
    provenance: Provenance,
) -> Document:
    """Statements (name, equation, sentence, error, holds, standing, values) as table and sheet.

    `pictures` holds the numbers of each of `PICTURES`.
    """
    table = statement_table(statements)
    broken = [one["name"] for one in statements if not one["holds"]]
    largest = max(statements, key=lambda one: float(one["error"]))
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
            f"not holding: {', '.join(broken)}" if broken else
            f"all {len(statements)} hold; the largest error is {largest['error']:.1e} "
            f"({largest['name']})",
            "paper: what became of the paper's claim; the statement is what holds",
        ),
    )  # fmt: skip


def statement_table(statements: Sequence[Mapping[str, Any]]) -> Table:
    """A row each: where it stands in the paper, what it says, its error, the paper's claim."""
    rows = tuple(
        Row((one["equation"], one["name"], one["sentence"], _error(one), one["standing"]))
        for one in statements
    )
    names = ("equation", "statement", "what holds", "error", "paper")
    return Table("The tabular laboratory", tuple(map(Column, names)), rows)


def _error(statement: Mapping[str, Any]) -> str:
    return f"{statement['error']:.1e}" + ("" if statement["holds"] else " FAILS")


def _figure(name: str, numbers: Mapping[str, Any]) -> Figure:
    def draw(path: Path) -> None:
        from sage_cli.reports.theory_panels import DRAWINGS

        DRAWINGS[name](numbers, path)

    return Figure(f"theory-{name}", draw)
