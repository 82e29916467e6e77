"""Token reports: completions under a guide, what q did to each token."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.guides.token_values import PERCENTILES, TokenValues
from sage_cli.reports.tables.table import Cell, Column, Measure, Row, Table


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
        shown = [max(one.values.entropy_T, default=0.0) for one in self.completions]
        return max([*shown, 1e-9])

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
        Row(_cells(str(number), one.status, len(one.tokens), one.values.summary), "each")
        for number, one in enumerate(report.completions, 1)
    ]
    right = sum(one.status == "right" for one in report.completions)
    tokens = sum(len(one.tokens) for one in report.completions)
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
    log_q = Measure(summary["log_q"], digits=4, signed=True)
    return (name, grade, tokens, *shares, log_q, *map(Measure, percentiles))


def visible(text: str) -> str:
    """Return a token's text with a sign before each line break, and ∅ if it is empty."""
    return text.replace("\n", "↵\n") or "∅"
