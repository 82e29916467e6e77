"""Token reports: completions under a guide, what q did to each token; and in the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.guides.token_values import PERCENTILES, TokenValues
from sage_cli.reports.tables import Cell, Column, Estimate, Row, Table


@dataclass(frozen=True)
class ReportedCompletion:
    """One completion: its tokens' texts with the values of each, and its grade.

    `retokenized` says that the stored text is tokenized differently from the tokens once sampled.
    """

    problem_id: str
    question: str
    gold: str
    status: str
    extracted: str | None
    tokens: tuple[str, ...]
    values: TokenValues
    retokenized: bool = False


@dataclass(frozen=True)
class TokenReport:
    """Completions of `policy` under `guide` (its name and settings in words) at a step from 0.

    `tau` is the branch guide's threshold, None for other guides; `summary` is over all tokens.
    """

    policy: str
    guide: str
    step: int
    q_min: float
    q_max: float
    tau: float | None
    completions: tuple[ReportedCompletion, ...]
    summary: dict[str, float]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Return the guide and the step of training, counted from 1 as in metrics.jsonl."""
        return f"guide {self.guide}, as at training step {self.step + 1}"

    @property
    def basis(self) -> str:
        """Return a sentence on how few completions the numbers are about."""
        count = len(self.completions)
        these = f"{count} completions" if count > 1 else "1 completion"
        return f"numbers are over the tokens of {these} alone; --limit N takes more problems"

    @property
    def entropy_scale(self) -> float:
        """The entropy in nats that is shown at full strength: the largest one."""
        largest = [max(completion.values.entropy_T, default=0.0) for completion in self.completions]
        return max([*largest, 1e-9])

    def pull(self, q: float) -> float:
        """Return where q is between the ends of its clamp: -1 at q_min, 0 at 1, 1 at q_max."""
        end = self.q_max - 1 if q > 1 else 1 - self.q_min
        return max(-1.0, min(1.0, (q - 1) / end)) if end > 0 else 0.0

    def heat(self, entropy: float) -> float:
        """Return an entropy's share of the largest one, in [0, 1]."""
        return max(0.0, min(1.0, entropy / self.entropy_scale))


def summary_table(report: TokenReport) -> Table:
    """Return a table with a row per completion and one for all tokens together."""
    columns = [Column(name) for name in ("", "grade", "tokens", "q≠1", "clamped")]
    columns.append(Column("log q", "mean"))
    columns += [Column(f"p{percent}", "entropy") for percent in PERCENTILES]
    rows = [
        Row(
            _cells(
                str(number), completion.status, len(completion.tokens), completion.values.summary
            ),
            "each",
        )
        for number, completion in enumerate(report.completions, 1)
    ]
    right = sum(completion.status == "right" for completion in report.completions)
    tokens = sum(len(completion.tokens) for completion in report.completions)
    rows.append(Row(_cells("all", f"{right}/{len(rows)} right", tokens, report.summary), "all"))
    notes = (
        report.heading,
        report.basis,
        "q≠1, clamped: shares of tokens; log q: mean; p50 to p99: percentiles of entropy, in nats",
        *report.notes,
    )
    return Table(report.policy, tuple(columns), tuple(rows), notes)


def _cells(name: str, grade: str, tokens: int, summary: dict[str, float]) -> tuple[Cell, ...]:
    shares = (f"{summary[key]:.1%}" for key in ("shaped", "clamped"))
    percentiles = (summary[f"entropy_p{percent}"] for percent in PERCENTILES)
    log_q = Estimate(summary["log_q"], digits=4, signed=True)
    return (name, grade, tokens, *shares, log_q, *map(Estimate, percentiles))


def visible(text: str) -> str:
    """Return a token's text with a sign before each line break, and ∅ if it is empty."""
    return text.replace("\n", "↵\n") or "∅"


_WHITE = Color.from_rgb(255, 255, 255)
_MORE, _LESS = (28, 95, 184), (150, 73, 10)
"""Background at q_max and at q_min; the page's own colours in the dark."""
_SHAPED_AT_LEAST = 0.35
"""The faintest background, so that q just above 1 differs from q = 1."""


def completion_text(completion: ReportedCompletion, report: TokenReport) -> Text:
    """Return a completion: background by q; dim, plain, bold or underlined by entropy."""
    text, values = Text(), completion.values
    for token, entropy, q in zip(completion.tokens, values.entropy_T, values.q_T, strict=True):
        text.append(visible(token), token_style(report.pull(q), report.heat(entropy)))
    return text


def strongest(completion: ReportedCompletion, count: int = 4) -> str:
    """Return the tokens furthest from q = 1, as `"4" 1.291, "-" 1.102`: for terminals without
    colours."""
    q_T = completion.values.q_T
    shaped = sorted((t for t, q in enumerate(q_T) if q != 1), key=lambda t: -abs(q_T[t] - 1))
    return ", ".join(
        f'"{visible(completion.tokens[t]).strip()}" {q_T[t]:.3f}' for t in shaped[:count]
    )


def to_rich(report: TokenReport) -> RichTable:
    """Return the summary in eighty columns."""
    table = summary_table(report)
    rendered = RichTable(
        box=None, padding=(0, 1, 0, 0), title=Text(table.title), title_justify="left"
    )
    rendered.caption, rendered.caption_justify = Text("\n".join(table.notes)), "left"
    for place, column in enumerate(table.columns):
        rendered.add_column(column.name, justify="left" if place < 2 else "right")
    for row in table.rows:
        rendered.add_row(*map(str, row.cells), style="bold" if row.section == "all" else "")
    return rendered


def legend(report: TokenReport, *, coloured: bool = True) -> Text:
    """Return what the styles mean, in their own styles; if not `coloured`, where they are shown.

    Without colours such a legend would be a row of numbers.
    """
    if not coloured:
        return Text(
            f"a terminal shows q ({report.q_min:g} to {report.q_max:g}) as the tokens' background "
            "and entropy as their weight; so does `sage view`, in a browser"
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
