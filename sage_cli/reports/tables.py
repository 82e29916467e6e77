"""Tables: columns, rows in sections, cells with their uncertainty, and records for JSON."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

UNDEFINED = "–"


@dataclass(frozen=True)
class Estimate:
    """A number with its standard deviation or interval, if it has one.

    With `tiny`, a positive number that its digits would show as 0 is shown as "<0.001"; with
    `significant`, digits are significant ones. NaN is undefined; its interval, if any, is shown
    alone.
    """

    value: float
    sd: float | None = None
    interval: tuple[float, float] | None = None
    digits: int = 3
    signed: bool = False
    tiny: bool = False
    significant: bool = False

    def __str__(self) -> str:
        if math.isnan(self.value):
            return self._span() or UNDEFINED
        if self.significant:
            return f"{self.value:.{self.digits}g}"
        if self.tiny and 0 < self.value < 10.0**-self.digits:
            return f"<{10.0**-self.digits:.{self.digits}f}"
        text = f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"
        if self.sd is not None and not math.isnan(self.sd):
            text += f" ± {self.sd:.{self.digits}f}"
        return f"{text} {self._span()}".rstrip()

    def _span(self) -> str:
        """Return the interval as `[0.010, 0.025]`, or nothing."""
        if self.interval is None or any(map(math.isnan, self.interval)):
            return ""
        low, high = (f"{end:.{self.digits}f}" for end in self.interval)
        return f"[{low}, {high}]"

    def parts(self) -> dict[str, float]:
        """Return its defined numbers by name, "" for the value itself."""
        low, high = self.interval or (None, None)
        numbers = {"": self.value, "sd": self.sd, "low": low, "high": high}
        return {k: v for k, v in numbers.items() if v is not None and not math.isnan(v)}


class Detail(str):
    """A note of method or provenance, which a report's files and `--notes` show."""

    __slots__ = ()


Cell = str | int | Estimate
Value = str | int | float | None
Record = dict[str, Value]
"""A row of a CSV file as a JSON object."""

Scores = Mapping[str, Mapping[int, Estimate]]
"""Benchmark -> k -> pass@k of a model."""


@dataclass(frozen=True)
class Column:
    """A heading, and the `group` (as a benchmark) that neighbouring columns share.

    Columns of a `part`, by default those of a group, stay together when a wide table is split.
    """

    name: str
    group: str = ""
    part: str = ""


def columns(names: str) -> tuple[Column, ...]:
    """Return a column for each of the names, which commas separate."""
    return tuple(Column(name.strip()) for name in names.split(","))


@dataclass(frozen=True)
class Row:
    """One cell per column; a change of `section` draws a rule."""

    cells: tuple[Cell, ...]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """Rows below columns, with notes for judging the numbers."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells in a row of {len(self.columns)} columns")


def essential(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the notes that are no details."""
    return tuple(note for note in notes if not isinstance(note, Detail))


def is_text(table: Table, place: int) -> bool:
    """Return True if the column at `place` holds words, which are aligned left."""
    return any(isinstance(row.cells[place], str) for row in table.rows)


def to_records(table: Table) -> list[Record]:
    """Return the rows of the CSV as objects; undefined numbers are None."""
    heads, rows = spread_out(table)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def spread_out(table: Table) -> tuple[list[str], list[list[Value]]]:
    """Return headings and rows with each number of each cell in a column of its own."""
    parts = [_parts(table, place) for place in range(len(table.columns))]
    heads = [
        " ".join(word for word in (column.group, column.name, part) if word)
        for column, names in zip(table.columns, parts, strict=True)
        for part in names
    ]
    rows = [
        [v for cell, names in zip(row.cells, parts, strict=True) for v in _values(cell, names)]
        for row in table.rows
    ]
    return heads, rows


def _parts(table: Table, place: int) -> list[str]:
    cells = [row.cells[place] for row in table.rows]
    present = {part for cell in cells if isinstance(cell, Estimate) for part in cell.parts()}
    return ["", *(part for part in ("sd", "low", "high") if part in present)]


def _values(cell: Cell, names: list[str]) -> list[Value]:
    if not isinstance(cell, Estimate):
        return [cell, *(None for _ in names[1:])]
    parts = cell.parts()
    return [parts.get(name) for name in names]


_COMMANDS = {"~": "textasciitilde{}", "^": "textasciicircum{}", "\\": "textbackslash{}"}
_MATHS = {"±": r"\pm", "τ": r"\tau", "ρ": r"\rho", "<": "<", ">": ">", "−": "-"}
TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {sign: f"\\{command}" for sign, command in _COMMANDS.items()}
    | {sign: f"${maths}$" for sign, maths in _MATHS.items()}
    | {"–": "--"}
)

_LINE_ENDS = re.compile(r"\s*[\r\n\v\f\x85\u2028\u2029]+\s*")
BOOKTABS = r"% needs \usepackage{booktabs}"


def to_markdown(table: Table) -> str:
    """Return a pipe table; a column's group stands before its name."""
    heads = [f"{column.group} {column.name}".strip() for column in table.columns]
    aligns = [":--" if is_text(table, place) else "--:" for place in range(len(heads))]
    body = [[str(cell) for cell in row.cells] for row in table.rows]
    escaped = [[_in_pipes(cell) for cell in cells] for cells in (heads, aligns, *body)]
    lines = ["| " + " | ".join(cells) + " |" for cells in escaped]
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{_LINE_ENDS.sub(' ', table.title)}**\n", *lines, *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Return CSV with each number in a column of its own: `aime pass@1`, `aime pass@1 sd`."""
    heads, rows = spread_out(table)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(no_formula, heads))
    writer.writerows(map(_in_csv, row) for row in rows)
    return text.getvalue()


def no_formula(text: str) -> str:
    """Return `text` with an apostrophe in front if a spreadsheet would compute it as a formula.

    Numbers and single signs are left as they are.
    """
    if len(text) < 2 or not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _in_csv(value: Value) -> Value:
    if isinstance(value, float):
        # ten digits: more than any estimate has, and equal on machines whose last bits differ
        return f"{value:.10g}"
    return no_formula(value) if isinstance(value, str) else value


def _in_pipes(text: str) -> str:
    return _LINE_ENDS.sub(" ", text).replace("|", r"\|")


def to_latex(table: Table) -> str:
    """Return a `table` with a header row for groups and one for names; it needs booktabs."""
    aligns = "".join("l" if is_text(table, place) else "r" for place in range(len(table.columns)))
    lines = [BOOKTABS, r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{aligns}}}", r"\toprule", *_latex_groups(table.columns)]
    lines += [_latex_row([_tex(column.name) for column in table.columns]), r"\midrule"]
    for place, row in enumerate(table.rows):
        if place and row.section != table.rows[place - 1].section:
            lines.append(r"\midrule")
        lines.append(_latex_row([_tex(str(cell)) for cell in row.cells]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {_tex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_groups(columns: tuple[Column, ...]) -> list[str]:
    if not any(column.group for column in columns):
        return []
    spans = [(group, len(list(members))) for group, members in groupby(c.group for c in columns)]
    starts = [1]
    for _, width in spans:
        starts.append(starts[-1] + width)
    cells = [rf"\multicolumn{{{w}}}{{c}}{{{_tex(g)}}}" if g else " & " * (w - 1) for g, w in spans]
    rules = [
        rf"\cmidrule(lr){{{first}-{after - 1}}}"
        for (group, _), (first, after) in zip(spans, pairwise(starts), strict=True)
        if group
    ]
    return [_latex_row(cells), "".join(rules)]


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex(text: str) -> str:
    return text.translate(TEX)
