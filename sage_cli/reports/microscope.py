"""The guide's microscope as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template

from sage_cli.reports.guide_view import Specimen, View, summary_table
from sage_cli.reports.table import Table


def to_html(view: View) -> str:
    """A page with a legend, the summary table and every token coloured by q and entropy.

    Hovering a token shows its surprisal, entropy and q. Light or dark as the reader's system is.
    """
    page = Template(files("sage_cli.reports").joinpath("microscope.html").read_text("utf-8"))
    tau = view.tau
    return page.substitute(
        title=escape(f"{view.policy}: what its guide does"),
        policy=escape(view.policy),
        guide=escape(f"{view.guide}, at optimiser step {view.step}"),
        notes="".join(f"<p class=note>{escape(note)}</p>" for note in view.notes),
        q_min=f"{view.q_min:g}",
        q_max=f"{view.q_max:g}",
        entropy=f"{view.entropy_scale:.2f}",
        tau="" if tau is None else _threshold(tau, view),
        table=_table(summary_table(view)),
        specimens="".join(
            _specimen(number, one, view) for number, one in enumerate(view.specimens, 1)
        ),
    )


def _threshold(tau: float, view: View) -> str:
    """A mark on the entropy scale, or a word where the threshold lies beyond it."""
    if tau > view.entropy_scale:
        return f"<span class=beyond>τ = {tau:g} lies above every entropy shown</span>"
    return f'<b class=tau style="left:{view.heat(tau):.1%}">τ {tau:g}</b>'


def _table(table: Table) -> str:
    heads = "".join(f"<th>{escape(f'{c.group} {c.name}'.strip())}</th>" for c in table.columns)
    rows = "".join(
        f"<tr class={row.section}>{''.join(f'<td>{escape(str(c))}</td>' for c in row.cells)}</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _specimen(number: int, one: Specimen, view: View) -> str:
    answer = "no answer" if one.extracted is None else f"answer {one.extracted}"
    verdict = "right" if one.status == "right" else "wrong"
    redrawn = " Its tokens were cut anew from the stored text, at other places." * one.redrawn
    return (
        f"<section><h2>{number} <em class={verdict}>{escape(one.status)}</em></h2>"
        f"<p class=question>{escape(one.question)}</p>"
        f"<p class=note>{escape(answer)}, gold {escape(one.gold)}; "
        f"problem {escape(one.problem_id)}.{redrawn}</p>"
        f"<div class=tokens>{''.join(_tokens(one, view))}</div></section>\n"
    )


def _tokens(one: Specimen, view: View) -> Iterator[str]:
    """One span a token; its three numbers stand in `data-v` for the script."""
    seen = one.examined
    for text, surprisal, entropy, q, clamped in zip(
        one.tokens, seen.surprisal_T, seen.entropy_T, seen.q_T, seen.clamped_T, strict=True
    ):
        pull = view.pull(q)
        side = "more" if pull > 0 else "less"
        yield (
            f'<span class="t {side}{" c" * clamped}" '
            f'style="--q:{abs(pull):.0%};--h:{view.heat(entropy):.0%}" '
            f'data-v="{surprisal:.3f} {entropy:.3f} {q:.3f}" '
            f'data-t="{escape(text)}">{escape(visible(text))}</span>'
        )


def visible(text: str) -> str:
    """A token's text with its line breaks drawn before they break, and ∅ where it is empty."""
    return text.replace("\n", "↵\n") or "∅"
