"""A token report in the terminal."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from sage_cli.reports.token_report import ReportedCompletion, TokenReport, summary_table, visible

_WHITE = Color.from_rgb(255, 255, 255)
_MORE, _LESS = (28, 95, 184), (150, 73, 10)
"""Background at q_max and at q_min; the page's own colours in the dark."""
_SHAPED_AT_LEAST = 0.35
"""The faintest background, so that q just above 1 differs from q = 1."""


def completion_text(one: ReportedCompletion, report: TokenReport) -> Text:
    """Return a completion: background by q; dim, plain, bold or underlined by entropy."""
    text, values = Text(), one.values
    for token, entropy, q in zip(one.tokens, values.entropy_T, values.q_T, strict=True):
        text.append(visible(token), token_style(report.pull(q), report.heat(entropy)))
    return text


def strongest(one: ReportedCompletion, count: int = 4) -> str:
    """Return the tokens furthest from q = 1, as `"4" 1.291, "-" 1.102`: for terminals without
    colours."""
    q_T = one.values.q_T
    shaped = sorted((t for t, q in enumerate(q_T) if q != 1), key=lambda t: -abs(q_T[t] - 1))
    return ", ".join(f'"{visible(one.tokens[t]).strip()}" {q_T[t]:.3f}' for t in shaped[:count])


def to_rich(report: TokenReport) -> Table:
    """Return the summary in eighty columns."""
    table = summary_table(report)
    shown = Table(box=None, padding=(0, 1, 0, 0), title=Text(table.title), title_justify="left")
    shown.caption, shown.caption_justify = Text("\n".join(table.notes)), "left"
    for place, column in enumerate(table.columns):
        shown.add_column(column.name, justify="left" if place < 2 else "right")
    for row in table.rows:
        shown.add_row(*map(str, row.cells), style="bold" if row.section == "all" else "")
    return shown


def legend(report: TokenReport, *, coloured: bool = True) -> Text:
    """Return what the styles mean, in their own styles; if not `coloured`, where they are shown.

    Without colours such a legend would be a row of numbers.
    """
    if not coloured:
        return Text(
            f"a terminal shows q ({report.q_min:g} to {report.q_max:g}) as the tokens' background "
            "and entropy as their weight; --html FILE writes a page with both"
        )
    text = Text("q  ")
    for q in (report.q_min, (1 + report.q_min) / 2, 1.0, (1 + report.q_max) / 2, report.q_max):
        text.append(f" {q:g} ", token_style(report.pull(q), 0.3))
    text.append("   entropy, nats  ")
    for quarter in range(4):
        start = report.entropy_scale * quarter / 4
        text.append(f"from {start:.2f}", token_style(0.0, (quarter + 0.5) / 4)).append("  ")
    return text


def token_style(pull: float, heat: float) -> Style:
    """Return the style of a token by the `pull` of its q in [-1, 1] and its `heat` in [0, 1]."""
    quarter = min(3, int(heat * 4))
    weight = Style(dim=quarter == 0 and not pull, bold=quarter >= 2, underline=quarter == 3)
    if not pull:
        return weight
    strength = _SHAPED_AT_LEAST + (1 - _SHAPED_AT_LEAST) * abs(pull)
    red, green, blue = (round(strength * part) for part in (_MORE if pull > 0 else _LESS))
    return weight + Style(color=_WHITE.name, bgcolor=Color.from_rgb(red, green, blue).name)
