"""The guide's microscope in the terminal."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from sage_cli.reports.guide_view import GuidedCompletion, GuideView, summary_table
from sage_cli.reports.microscope import visible

_WHITE = Color.from_rgb(255, 255, 255)
_MORE, _LESS = (28, 95, 184), (150, 73, 10)
"""Background at q_max and at q_min; the page's own colours in the dark."""
_SHAPED_AT_LEAST = 0.35
"""The faintest background, so that q just above 1 differs from q = 1."""


def completion_text(one: GuidedCompletion, view: GuideView) -> Text:
    """A completion: background by q, and by entropy dim, plain, bold or bold and underlined."""
    text, seen = Text(), one.examined
    for token, entropy, q in zip(one.tokens, seen.entropy_T, seen.q_T, strict=True):
        text.append(visible(token), token_style(view.pull(q), view.heat(entropy)))
    return text


def strongest(one: GuidedCompletion, count: int = 4) -> str:
    """The tokens furthest from q = 1, for terminals without colours: `"4" 1.291, "-" 1.102`."""
    q_T = one.examined.q_T
    shaped = sorted((t for t, q in enumerate(q_T) if q != 1), key=lambda t: -abs(q_T[t] - 1))
    return ", ".join(f'"{visible(one.tokens[t]).strip()}" {q_T[t]:.3f}' for t in shaped[:count])


def to_rich(view: GuideView) -> Table:
    """The summary in eighty columns."""
    table = summary_table(view)
    shown = Table(box=None, padding=(0, 1, 0, 0), title=Text(table.title), title_justify="left")
    shown.caption, shown.caption_justify = Text("\n".join(table.notes)), "left"
    for place, column in enumerate(table.columns):
        shown.add_column(column.name, justify="left" if place < 2 else "right")
    for row in table.rows:
        shown.add_row(*map(str, row.cells), style="bold" if row.section == "all" else "")
    return shown


def legend(view: GuideView) -> Text:
    """What the styles mean, in their own styles."""
    text = Text("q  ")
    for q in (view.q_min, (1 + view.q_min) / 2, 1.0, (1 + view.q_max) / 2, view.q_max):
        text.append(f" {q:g} ", token_style(view.pull(q), 0.3))
    text.append("   entropy, nats  ")
    quarters = (view.entropy_scale * part / 4 for part in range(4))
    for place, start in enumerate(quarters):
        text.append(f"from {start:.2f}", token_style(0.0, (place + 0.5) / 4)).append("  ")
    return text


def token_style(pull: float, heat: float) -> Style:
    """The style of a token whose q stands at `pull` in [-1, 1], its entropy at `heat` in [0, 1]."""
    quarter = min(3, int(heat * 4))
    weight = Style(dim=quarter == 0 and not pull, bold=quarter >= 2, underline=quarter == 3)
    if not pull:
        return weight
    strength = _SHAPED_AT_LEAST + (1 - _SHAPED_AT_LEAST) * abs(pull)
    red, green, blue = (round(strength * part) for part in (_MORE if pull > 0 else _LESS))
    return weight + Style(color=_WHITE.name, bgcolor=Color.from_rgb(red, green, blue).name)
