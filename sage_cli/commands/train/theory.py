"""`sage theory`: the paper's equations on problems small enough to enumerate."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import TypedDict

from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.theory import theory_document
from sage_cli.store.surroundings import surroundings
from sage_cli.theory import TOLERANCE, pictures, statements
from sage_cli.theory.pictures import Pictures
from sage_cli.theory.statement import StatementJson


class TheoryData(TypedDict):
    """The data of the report."""

    tolerance: float
    holds: bool
    largest_error: float
    statements: list[StatementJson]
    pictures: Pictures


def theory(root: Path, progress: Progress) -> Report:
    """Compute every statement and picture and write the report below `root`."""
    with progress.doing("computing statements and pictures"):
        found = [statement.as_json() for statement in statements()]
        document = theory_document(found, pictures(), TOLERANCE, Provenance.here(surroundings()))
    with progress.doing("drawing and writing the report"):
        return document.write(root / "reports" / f"theory-{document.content[:8]}")
