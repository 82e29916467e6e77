"""Tables in files: records, CSV, Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
import re
from itertools import groupby, pairwise

from sage_cli.reports.estimate import Estimate
from sage_cli.reports.tables import Cell, Column, Table, cell_text, cell_texts, is_text

_Value = str | int | float | None
Record = dict[str, _Value]
"""A row of a CSV file as a JSON object."""
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


def to_records(table: Table) -> list[Record]:
    """Return the rows of the CSV as objects; undefined numbers are None."""
    heads, rows = spread_out(table)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def spread_out(table: Table) -> tuple[list[str], list[list[_Value]]]:
    """Return headings and rows with each number of each cell in a column of its own."""
    parts = [_parts(table, index) for index in range(len(table.columns))]
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


def _parts(table: Table, index: int) -> list[str]:
    cells = [row.cells[index] for row in table.rows]
    present = {part for cell in cells if isinstance(cell, Estimate) for part in cell.parts()}
    return ["", *(part for part in ("sd", "low", "high") if part in present)]


def _values(cell: Cell, names: list[str]) -> list[_Value]:
    if not isinstance(cell, Estimate):
        return [cell, *(None for _ in names[1:])]
    parts = cell.parts()
    return [parts.get(name) for name in names]


def to_markdown(table: Table) -> str:
    """Return a pipe table; a column's group stands before its name."""
    heads = [f"{column.group} {column.heading}".strip() for column in table.columns]
    aligns = [":--" if is_text(table, index) else "--:" for index in range(len(heads))]
    body = cell_texts(table)
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


def _in_csv(value: _Value) -> _Value:
    if isinstance(value, float):
        # ten digits: more than any estimate has, and equal on machines whose last bits differ
        return f"{value:.10g}"
    return no_formula(value) if isinstance(value, str) else value


def _in_pipes(text: str) -> str:
    return _LINE_ENDS.sub(" ", text).replace("|", r"\|")


def to_latex(table: Table) -> str:
    """Return a `table` with a header row for groups and one for names; it needs booktabs."""
    aligns = "".join("l" if is_text(table, index) else "r" for index in range(len(table.columns)))
    lines = [BOOKTABS, r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{aligns}}}", r"\toprule", *_latex_groups(table.columns)]
    lines += [_latex_row([_tex(column.heading) for column in table.columns]), r"\midrule"]
    for index, row in enumerate(table.rows):
        if index and row.section != table.rows[index - 1].section:
            lines.append(r"\midrule")
        lines.append(_latex_row([_tex(text) for text in map(cell_text, table.columns, row.cells)]))
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
