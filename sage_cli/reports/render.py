"""A table in the forms people use: terminal, Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
from itertools import groupby, pairwise

from rich.markup import escape
from rich.table import Table as RichTable

from sage_cli.reports.table import Cell, Column, Measure, Table

TEX = str.maketrans({
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "±": r"$\pm$", "–": "--", "τ": r"$\tau$", "ρ": r"$\rho$", "<": r"$<$", ">": r"$>$",
    "−": "$-$",
})  # fmt: skip


def to_rich(table: Table) -> RichTable:
    """For the terminal; print it with a rich console."""
    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    shown.caption, shown.caption_justify = escape("\n".join(table.notes)) or None, "left"
    for place, column in enumerate(table.columns):
        header = "\n".join(part for part in (column.group, column.name) if part)
        shown.add_column(escape(header), justify="left" if _is_text(table, place) else "right")
    for place, row in enumerate(table.rows):
        following = table.rows[place + 1 : place + 2]
        ends = bool(following) and following[0].section != row.section
        shown.add_row(*(escape(str(cell)) for cell in row.cells), end_section=ends)
    return shown


def to_markdown(table: Table) -> str:
    """A pipe table; a column's group stands before its name."""
    heads = [f"{column.group} {column.name}".strip() for column in table.columns]
    aligns = [":--" if _is_text(table, place) else "--:" for place in range(len(heads))]
    body = [[str(cell).replace("|", r"\|") for cell in row.cells] for row in table.rows]
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, aligns, *body)]
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{table.title}**\n", *lines, *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Every number in full in a column of its own: `aime pass@1`, `aime pass@1 sd`."""
    parts = [_parts(table, place) for place in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [
        " ".join(word for word in (column.group, column.name, part) if word)
        for column, names in zip(table.columns, parts, strict=True)
        for part in names
    ]
    writer.writerow(heads)
    for row in table.rows:
        values = [
            value for cell, names in zip(row.cells, parts, strict=True)
            for value in _values(cell, names)
        ]  # fmt: skip
        writer.writerow(values)
    return text.getvalue()


def to_latex(table: Table) -> str:
    """A booktabs `table` with one header row for groups and one for names."""
    aligns = "".join("l" if _is_text(table, place) else "r" for place in range(len(table.columns)))
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}}}"]
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


def _is_text(table: Table, place: int) -> bool:
    return any(isinstance(row.cells[place], str) for row in table.rows)


def _parts(table: Table, place: int) -> list[str]:
    cells = [row.cells[place] for row in table.rows]
    found = {part for cell in cells if isinstance(cell, Measure) for part in cell.parts()}
    return ["", *(part for part in ("sd", "low", "high") if part in found)]


def _values(cell: Cell, names: list[str]) -> list[str]:
    if not isinstance(cell, Measure):
        return [str(cell), *("" for _ in names[1:])]
    parts = cell.parts()
    return [f"{parts[name]:.10g}" if name in parts else "" for name in names]
