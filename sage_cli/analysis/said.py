"""What a sample says in the end, for votes and for counting different answers."""

from __future__ import annotations

from sage_cli.analysis.answers import Row
from sage_cli.metrics.majority import RIGHT


def said(row: Row) -> str | None:
    """RIGHT, or a wrong answer's text without blanks and case; None where there is no answer.

    Two spellings of one wrong answer count as two: only the gold is compared as mathematics.
    """
    if row.right:
        return RIGHT
    extracted = row.grade.extracted
    if row.grade.status == "unparseable" or extracted is None:
        return None
    return "= " + "".join(extracted.split()).casefold()
