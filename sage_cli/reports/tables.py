"""Tables: columns, rows in sections, cells with their uncertainty; as records, on the terminal."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

UNDEFINED = "–"
P_DIGITS = 2
"""Significant digits of a p-value."""
SMALLEST_P = 0.0001
"""Smaller p-values are shown as "<0.0001": no test here is exact so far out."""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard deviation or interval, if it has one.

    With `significant`, digits are significant ones. A p-value (`is_p`) has `P_DIGITS` of these,
    zeros at the end included, or is shown as below `SMALLEST_P`; one of at most `below` is shown as
    "<0.05", where it is not exact enough. NaN is undefined; its interval, if any, is shown alone.
    """

    value: float
    sd: float | None = None
    interval: tuple[float, float] | None = None
    digits: int = 3
    signed: bool = False
    is_p: bool = False
    significant: bool = False
    below: float | None = None

    def __str__(self) -> str:
        """Return it as people read it, with a minus sign; data have the numbers themselves."""
        return re.sub("(?<!e)-", "−", self._text())

    def _text(self) -> str:
        if math.isnan(self.value):
            return self._span() or UNDEFINED
        if self.below is not None and self.value <= self.below:
            return f"<{self.below:g}"
        if self.is_p:
            smallest = 0 < self.value < SMALLEST_P
            return f"<{SMALLEST_P:.4f}" if smallest else f"{self.value:#.{P_DIGITS}g}"
        if self.significant:
            return f"{self.value:.{self.digits}g}"
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

    def negated(self) -> Estimate:
        """Return the estimate of the opposite difference, b − a of a − b."""
        # 0.0 - x instead of -x, because -0.0 would be shown with a minus sign
        interval = self.interval and (0.0 - self.interval[1], 0.0 - self.interval[0])
        return replace(self, value=0.0 - self.value, interval=interval)

    def parts(self) -> dict[str, float]:
        """Return its defined numbers by name, "" for the value itself."""
        low, high = self.interval or (None, None)
        numbers = {"": self.value, "sd": self.sd, "low": low, "high": high}
        return {k: v for k, v in numbers.items() if v is not None and not math.isnan(v)}


def p_value(p: float, below: float | None = None) -> Estimate:
    """Return a p-value as all tables show it: two significant digits, or "<0.0001"."""
    return Estimate(p, is_p=True, below=below)


class Detail(str):
    """A note of method or provenance, which a report's files and `--notes` show."""

    __slots__ = ()


Cell = str | int | Estimate
_Value = str | int | float | None
Record = dict[str, _Value]
"""A row of a CSV file as a JSON object."""

Scores = Mapping[str, Mapping[int, Estimate]]
"""Benchmark -> k -> pass@k of a model."""


@dataclass(frozen=True)
class Column:
    """A heading, and the `group` (such as a benchmark) that neighbouring columns share.

    Columns of a `part`, by default those of a group, stay together when a wide table is split. CSV
    and JSON have the `name`, which stays; people read the `label`, if there is one. Whole numbers
    below a `count` have thousands separators where people read them; seeds, years and IDs are no
    counts. A `detail` is left out of a terminal's table unless all notes are asked for.
    """

    name: str
    group: str = ""
    part: str = ""
    label: str = ""
    count: bool = False
    detail: bool = False

    @property
    def heading(self) -> str:
        """Return what people read: the label, or the name."""
        return self.label or self.name


def columns(names: str) -> tuple[Column, ...]:
    """Return a column for each of the names, which commas separate.

    `name=label` has a label; `name#` is a count, and `name?` a detail.
    """
    columns = []
    for text in names.split(","):
        name, _, label = text.strip().partition("=")
        marks = text.strip()[len(text.strip().rstrip("#?")) :]
        name, label = name.rstrip("#?"), label.rstrip("#?")
        columns.append(Column(name, label=label, count="#" in marks, detail="?" in marks))
    return tuple(columns)


def cell_text(column: Column, cell: Cell) -> str:
    """Return a cell as people read it below `column`."""
    return f"{cell:,}" if column.count and isinstance(cell, int) else str(cell)


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
    """Return the notes that are not details."""
    return tuple(note for note in notes if not isinstance(note, Detail))


def without_details(table: Table) -> Table:
    """Return a table without the columns and notes that are details."""
    kept = [place for place, column in enumerate(table.columns) if not column.detail]
    return replace(_of(table, kept), notes=essential(table.notes))


def is_text(table: Table, index: int) -> bool:
    """Return True if the column at `index` holds words, which are aligned left."""
    return any(isinstance(row.cells[index], str) for row in table.rows)


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
    heads = [f"{column.group} {column.heading}".strip() for column in table.columns]
    aligns = [":--" if is_text(table, index) else "--:" for index in range(len(heads))]
    body = cell_texts(table)
    escaped = [[_in_pipes(cell) for cell in cells] for cells in (heads, aligns, *body)]
    lines = ["| " + " | ".join(cells) + " |" for cells in escaped]
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{_LINE_ENDS.sub(' ', table.title)}**\n", *lines, *notes]) + "\n"


def cell_texts(table: Table) -> list[list[str]]:
    """Return every cell as people read it, row by row."""
    return [list(map(cell_text, table.columns, row.cells)) for row in table.rows]


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


_SEED = ", seed "


def seed_title(method: str, seed: int) -> str:
    """Return a run's label, such as `grpo-branch, seed 2`."""
    return f"{method}{_SEED}{seed}"


def by_method(labels: Sequence[str]) -> dict[str, list[str]]:
    """Return method -> its series in order; a label without a seed is a method of its own.

    Labels that a user gives are read alike: `RUN=branch, seed 2`.
    """
    methods: dict[str, list[str]] = {}
    for label in labels:
        method, _, seed = label.rpartition(_SEED)
        methods.setdefault(method if method and seed.isdigit() else label, []).append(label)
    return methods


LONG_WORD = 24
"""Longer words, as paths, may be broken; names of runs are about as long."""
HEADER_WIDTH = 12
"""Width in characters at which headings of narrow columns are broken."""

CORNERS = ("┓", "+")
"""How the first line of a whole table ends, with lines and on a terminal without."""


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title and notes, tightly or in parts where the console is narrow."""

    def fits(part: Table, *, tight: bool = False) -> bool:
        rendered = console.render_lines(rich_table(part, tight=tight), pad=False)
        lines = ["".join(segment.text for segment in line) for line in rendered]
        text = "\n".join(lines)
        return lines[0].endswith(CORNERS) and all(word in text for word in _unbroken(part, tight))

    tight = not fits(table) and fits(table, tight=True)
    # not rich's own title and caption, which would be as narrow as the table
    for part in [table] if tight else narrowed(table, fits):
        console.print(Text(part.title, style="bold"))
        console.print(rich_table(part, tight=tight))
        for note in part.notes:
            console.print(Text(note, style="dim"))


def rich_table(table: Table, *, tight: bool = False) -> RichTable:
    """Return the columns and rows as a rich table, with fewer blanks if it is `tight`."""
    rendered = RichTable(padding=(0, 1, 0, 0 if tight else 1))
    for index in range(len(table.columns)):
        words = is_text(table, index)
        header = _header(table, index, tight)
        rendered.add_column(
            escape("\n".join(header)),
            justify="left" if words else "right",
            overflow="fold" if words else "ellipsis",
            no_wrap=not words,  # rich narrows the other columns, to the widths that are left
            min_width=None if words else max(_widest_cell(table, index), *map(len, header)),
        )
    for index, row in enumerate(table.rows):
        following = table.rows[index + 1 : index + 2]
        ends = bool(following) and following[0].section != row.section
        cells = map(escape, map(cell_text, table.columns, row.cells))
        rendered.add_row(*cells, end_section=ends)
    return rendered


def _header(table: Table, index: int, tight: bool) -> list[str]:
    """Return a column's heading in lines; long ones, such as names of runs, break at hyphens."""
    column = table.columns[index]
    width = max(_widest_cell(table, index), 1 if tight else HEADER_WIDTH)
    parts = (part.replace("-", "-\0 ") for part in (column.group, column.heading))
    lines = [line for part in parts for line in wrap(part, width, break_long_words=False)]
    return [line.replace("\0 ", "").replace("\0", "") for line in lines]


def _widest_cell(table: Table, index: int) -> int:
    column = table.columns[index]
    return max((len(cell_text(column, row.cells[index])) for row in table.rows), default=0)


def _unbroken(table: Table, tight: bool) -> Iterator[str]:
    """Yield what must stay on a line: numbers with intervals, words of usual length."""
    for index in range(len(table.columns)):
        if not is_text(table, index):
            yield from _header(table, index, tight)
        for row in table.rows:
            cell = cell_text(table.columns[index], row.cells[index])
            words = cell.split() if is_text(table, index) else [cell]
            yield from (word for word in words if len(word) <= LONG_WORD)


def narrowed(table: Table, fits: Callable[[Table], bool]) -> list[Table]:
    """Return `table` if it fits, else several, each with as many parts as fit.

    A first column of one word in all rows goes to the title. Columns of no part are in each. If
    all are of one part, every column of it is a part. If no column has a part, the first columns
    that make all rows distinct are in each, and every other column is a part. A part that is still
    too wide is taken apart itself.
    """
    if fits(table):
        return [table]
    table = _without_repeated(table)
    if fits(table):
        return [table]
    named = len({part for column in table.columns if (part := _part(column))}) > 1
    if not named:
        table = _apart(table)
    names = list(dict.fromkeys(part for column in table.columns if (part := _part(column))))
    if len(names) < 2:
        return [table]
    packed: list[list[str]] = [names[:1]]
    for name in names[1:]:
        if fits(_only(table, [*packed[-1], name])):
            packed[-1].append(name)
        else:
            packed.append([name])
    titles = [table.title, *[f"{table.title} (continued)"] * (len(packed) - 1)]
    if named:
        titles = [f"{table.title}: {', '.join(parts)}" for parts in packed]
    split: list[Table] = []
    for parts, title in zip(packed, titles, strict=True):
        piece = replace(_only(table, parts), title=title)
        split += [piece] if len(parts) > 1 else narrowed(piece, fits)  # several were seen to fit
    return [*split[:-1], replace(split[-1], notes=table.notes)]


def _without_repeated(table: Table) -> Table:
    """Return a table of several rows whose first words, where all rows have them, are its title."""
    if len(table.rows) < 2:
        return table
    repeated = {
        index: cell
        for index, cell in enumerate(table.rows[0].cells[: _key_columns(table) - 1])
        if isinstance(cell, str) and all(row.cells[index] == cell for row in table.rows)
    }
    if not repeated:
        return table
    kept = [index for index in range(len(table.columns)) if index not in repeated]
    title = f"{table.title}: {', '.join(repeated.values())}"
    return replace(_of(table, kept), title=title, notes=table.notes)


def _apart(table: Table) -> Table:
    """Return a table of one part or none with its columns as parts, but those that are in each."""
    shared = [not _part(column) for column in table.columns]
    if all(shared):
        keys = _key_columns(table)
        shared = [index < keys for index in range(len(shared))]
    heads = zip(table.columns, shared, strict=True)
    apart = (
        column if is_shared else replace(column, part=column.name) for column, is_shared in heads
    )
    return replace(table, columns=tuple(apart))


def _key_columns(table: Table) -> int:
    """Return how many of the first columns make all rows distinct; 1 if none do."""
    for count in range(1, len(table.columns)):
        if len({row.cells[:count] for row in table.rows}) == len(table.rows):
            return count
    return 1


def _part(column: Column) -> str:
    return column.part or column.group


def _only(table: Table, parts: Sequence[str]) -> Table:
    """Return the columns of some parts and of none, without notes."""
    kept = [i for i, column in enumerate(table.columns) if _part(column) in ("", *parts)]
    return _of(table, kept)


def _of(table: Table, kept: Sequence[int]) -> Table:
    """Return the columns at some places, without notes."""
    columns = tuple(table.columns[i] for i in kept)
    rows = tuple(Row(tuple(row.cells[i] for i in kept), row.section) for row in table.rows)
    return Table(table.title, columns, rows)
