"""Token reports: completions under a guide, what q did to each token; and in the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.grading.grades import status_in_words
from sage_cli.guides.token_values import PERCENTILES, TokenValues
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.tables import Cell, Column, Row, Table


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
        return f"guide {self.guide}, with its values at training step {self.step + 1}"

    @property
    def basis(self) -> str:
        """Return a sentence on how few completions the numbers are about."""
        count = len(self.completions)
        these = f"{count} completions" if count > 1 else "1 completion"
        return f"the numbers are of the tokens of {these}; --limit N reads more problems"


def summary_table(report: TokenReport) -> Table:
    """Return a table with a row per completion and one for all tokens together."""
    columns = [Column(name) for name in ("", "grade", "tokens", "q≠1", "clamped")]
    columns.append(Column("log q", "mean"))
    columns += [Column(f"p{percent}", "entropy") for percent in PERCENTILES]
    rows = [
        Row(
            _cells(
                str(number),
                status_in_words(completion.status),
                len(completion.tokens),
                completion.values.summary,
            ),
            "each",
        )
        for number, completion in enumerate(report.completions, 1)
    ]
    right = sum(completion.status == "right" for completion in report.completions)
    tokens = sum(len(completion.tokens) for completion in report.completions)
    rows.append(Row(_cells("all", f"{right}/{len(rows)} correct", tokens, report.summary), "all"))
    notes = (
        report.heading,
        report.basis,
        "q≠1 and clamped are shares of tokens, log q is a mean, and p50 to p99 are percentiles of "
        "the entropy in nats",
        *report.notes,
    )
    return Table(report.policy, tuple(columns), tuple(rows), notes)


def _cells(name: str, grade: str, tokens: int, summary: dict[str, float]) -> tuple[Cell, ...]:
    shares = (f"{summary[key]:.1%}" for key in ("shaped", "clamped"))
    percentiles = (summary[f"entropy_p{percent}"] for percent in PERCENTILES)
    log_q = Estimate(summary["log_q"], digits=4, signed=True)
    return (name, grade, tokens, *shares, log_q, *map(Estimate, percentiles))


def visible_token(text: str) -> str:
    """Return a token's text with a sign before each line break, and ∅ if it is empty."""
    return text.replace("\n", "↵\n") or "∅"


MORE, LESS = Style(color="white", bgcolor="#1c5fb8"), Style(color="white", bgcolor="#964909")
"""The styles of tokens with q above and below 1."""
LEGEND = Text.assemble(
    ("q above 1", MORE), "  ", ("q below 1", LESS), "  `sage view` shows the values"
)


def completion_text(completion: ReportedCompletion) -> Text:
    """Return a completion in which tokens whose q is not 1 have a background."""
    text = Text()
    for token, q in zip(completion.tokens, completion.values.q_T, strict=True):
        text.append(visible_token(token), MORE if q > 1 else LESS if q < 1 else None)
    return text


def strongest(completion: ReportedCompletion, count: int = 4) -> str:
    """Return the tokens furthest from q = 1, such as `"4" 1.291, "-" 1.102`: for terminals without
    colours."""
    q_T = completion.values.q_T
    shaped = sorted((t for t, q in enumerate(q_T) if q != 1), key=lambda t: -abs(q_T[t] - 1))
    return ", ".join(
        f'"{visible_token(completion.tokens[t]).strip()}" {q_T[t]:.3f}' for t in shaped[:count]
    )


def to_rich(report: TokenReport) -> RichTable:
    """Return the summary in eighty columns."""
    table = summary_table(report)
    rendered = RichTable(
        box=None, padding=(0, 1, 0, 0), title=Text(table.title), title_justify="left"
    )
    rendered.caption, rendered.caption_justify = Text("\n".join(table.notes)), "left"
    for index, column in enumerate(table.columns):
        rendered.add_column(column.name, justify="left" if index < 2 else "right")
    for row in table.rows:
        rendered.add_row(*map(str, row.cells), style="bold" if row.section == "all" else "")
    return rendered
