"""The guide's microscope as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from sage_cli.reports.guide_view import GuidedCompletion, GuideView, summary_table


def to_html(view: GuideView) -> str:
    """A page with a legend, the summary table and every token coloured by q and entropy.

    Hovering a token shows its surprisal, entropy and q. Light or dark as the reader's system is.
    """
    pages = Environment(
        loader=PackageLoader("sage_cli", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("microscope.html").render(
        view=view, table=summary_table(view), tokens_of=lambda one: _tokens(one, view)
    )


@dataclass(frozen=True)
class _Token:
    """A token as it is drawn: its text, its numbers, how strong its colours are (in [0, 1])."""

    text: str
    shown: str
    surprisal: float
    entropy: float
    q: float
    clamped: bool
    pull: float
    heat: float


def _tokens(one: GuidedCompletion, view: GuideView) -> Iterator[_Token]:
    seen = one.examined
    for text, surprisal, entropy, q, clamped in zip(
        one.tokens, seen.surprisal_T, seen.entropy_T, seen.q_T, seen.clamped_T, strict=True
    ):
        pull, heat = view.pull(q), view.heat(entropy)
        yield _Token(text, visible(text), surprisal, entropy, q, clamped, pull, heat)


def visible(text: str) -> str:
    """A token's text with its line breaks drawn before they break, and ∅ where it is empty."""
    return text.replace("\n", "↵\n") or "∅"
