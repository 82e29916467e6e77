"""Tables for notebooks: rows as dictionaries, as Arrow, as a data frame, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sage_cli.errors import SageError

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 60
"""Rows that a notebook shows of a table."""


class Rows(Sequence[Mapping[str, Any]]):
    """A table as a list of dictionaries, all with the same keys."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self._rows = [{key: row.get(key) for key in keys} for row in rows]

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        names = ", ".join(self._rows[0]) if self._rows else "none"
        return f"{len(self)} rows with the columns {names}"

    def _repr_html_(self) -> str:
        """Return the first rows as a table, which notebooks show."""
        left = len(self) - SHOWN
        more = f"<p>and {left:,} more</p>" if left > 0 else ""
        return html_table(self._rows[:SHOWN]) + more

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow Table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame. Raises SageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise SageError("pandas isn't installed", "pip install pandas") from None
        return pandas.DataFrame(self._rows)


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with the same keys as an HTML table; what they hold is escaped."""
    if not rows:
        return "<p>no rows</p>"
    heads = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    lines = (
        "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
