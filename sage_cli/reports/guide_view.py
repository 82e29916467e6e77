"""Completions under a guide, ready to be looked at: tokens, what q did to them, and scales."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.guides.microscope import Examined
from sage_cli.guides.statistics import PERCENTILES
from sage_cli.reports.tables.table import Cell, Column, Measure, Row, Table

_COLUMNS = (
    Column(""), Column("verdict"), Column("tokens"), Column("q≠1"), Column("clamped"),
    Column("log q", "mean"), *(Column(f"p{percent}", "entropy") for percent in PERCENTILES),
)  # fmt: skip


@dataclass(frozen=True)
class GuidedCompletion:
    """One completion: its tokens' texts with the numbers of each, and its verdict.

    `redrawn` says that the stored text has other token borders than the tokens once drawn.
    """

    problem_id: str
    question: str
    gold: str
    status: str
    extracted: str | None
    tokens: tuple[str, ...]
    examined: Examined
    redrawn: bool = False


@dataclass(frozen=True)
class GuideView:
    """Completions of `policy` under `guide` (its name and settings in words) at a step.

    `tau` is the branch guide's threshold, None for other guides; `summary` is over all tokens.
    """

    policy: str
    guide: str
    step: int
    q_min: float
    q_max: float
    tau: float | None
    completions: tuple[GuidedCompletion, ...]
    summary: dict[str, float]
    notes: tuple[str, ...] = ()

    @property
    def entropy_scale(self) -> float:
        """The entropy that is drawn at full strength, in nats: the largest one shown."""
        shown = [max(one.examined.entropy_T, default=0.0) for one in self.completions]
        return max([*shown, 1e-9])

    def pull(self, q: float) -> float:
        """Where q stands between the ends of its clamp: -1 at q_min, 0 at 1, 1 at q_max."""
        end = self.q_max - 1 if q > 1 else 1 - self.q_min
        return max(-1.0, min(1.0, (q - 1) / end)) if end > 0 else 0.0

    def heat(self, entropy: float) -> float:
        """An entropy's share of the largest one, in [0, 1]."""
        return max(0.0, min(1.0, entropy / self.entropy_scale))


def summary_table(view: GuideView) -> Table:
    """A row per completion and one for all tokens together."""
    rows = [
        Row(_cells(str(number), one.status, len(one.tokens), one.examined.summary), "each")
        for number, one in enumerate(view.completions, 1)
    ]
    right = sum(one.status == "right" for one in view.completions)
    tokens = sum(len(one.tokens) for one in view.completions)
    verdict = f"{right}/{len(rows)} right"
    rows.append(Row(_cells("all", verdict, tokens, view.summary), "all"))
    notes = (
        f"guide {view.guide}, at step {view.step}",
        "log q: mean; entropy in nats",
        *view.notes,
    )
    return Table(view.policy, _COLUMNS, tuple(rows), notes)


def _cells(name: str, verdict: str, tokens: int, summary: dict[str, float]) -> tuple[Cell, ...]:
    shares = (f"{summary[key]:.1%}" for key in ("shaped", "clamped"))
    percentiles = (summary[f"entropy_p{percent}"] for percent in PERCENTILES)
    log_q = Measure(summary["log_q"], digits=4, signed=True)
    return (name, verdict, tokens, *shares, log_q, *map(Measure, percentiles))
