"""Visits: how a training met its problems, in the order of its steps, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from sage_cli.analysis.analysis import Analysis, Inputs, Options, printed_table, share_gap
from sage_cli.metrics.estimators import FloatArray, IntArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.panels import Series, draw_lines
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns
from sage_cli.store.tables import as_numpy

_PHASES = ("early", "mid", "late")
"""Thirds of the steps that sampled."""
AXES = ("step", "completions")
"""What problems solved so far are drawn against."""


@dataclass(frozen=True, eq=False)
class Visits:
    """A visit V is a problem's completions in one step: `n_V`, of which `right_V` are correct.

    Steps rise along V; `problem_V` numbers the problems from 0.
    """

    step_V: IntArray
    problem_V: IntArray
    n_V: IntArray
    right_V: IntArray

    @cached_property
    def problems(self) -> int:
        """The number of problems that were visited."""
        return len(np.unique(self.problem_V))

    @cached_property
    def first(self) -> IntArray:
        """Return each problem's first visit."""
        return np.unique(self.problem_V, return_index=True)[1]

    @cached_property
    def last(self) -> IntArray:
        """Return each problem's last visit."""
        return len(self.problem_V) - 1 - np.unique(self.problem_V[::-1], return_index=True)[1]

    @cached_property
    def solved(self) -> np.ndarray:
        """Return at which visits at least one completion was correct."""
        return self.right_V > 0

    @cached_property
    def discovery(self) -> IntArray:
        """Return the visits at which a problem was solved for the first time."""
        solving = np.flatnonzero(self.solved)
        return np.sort(solving[np.unique(self.problem_V[solving], return_index=True)[1]])

    @cached_property
    def next_of(self) -> tuple[IntArray, IntArray]:
        """Return pairs of visits: one, and the same problem's next."""
        order = np.argsort(self.problem_V, kind="stable")
        same = self.problem_V[order[1:]] == self.problem_V[order[:-1]]
        return order[:-1][same], order[1:][same]

    def solved_by(self, at_V: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, y): the value of `at_V` at each discovery, and the problems solved by then.

        `at_V` rises along the visits, as steps do or completions so far.
        """
        x = np.append(at_V[self.discovery], at_V[-1:]).astype(float)
        y = np.append(np.arange(1, len(self.discovery) + 1), len(self.discovery)).astype(float)
        return x, y

    def rates(self) -> tuple[FloatArray, FloatArray]:
        """Return pass rates at the first and the last visit of problems with more than one."""
        often = self.first != self.last
        rate_V = self.right_V / self.n_V
        return rate_V[self.first[often]], rate_V[self.last[often]]


@dataclass(frozen=True, eq=False)
class LedgerColumns:
    """A ledger as arrays: a row R for each problem of a step that was trained on, or was not."""

    ids: Sequence[str]
    """The problems' ids; `problem_R` are places here."""
    step_R: IntArray
    problem_R: IntArray
    n_R: IntArray
    right_R: IntArray
    tokens_R: IntArray
    right_tokens_R: IntArray
    trained_R: np.ndarray

    @classmethod
    def from_table(cls, table: pa.Table) -> LedgerColumns:
        """Return the columns of a stored ledger."""
        ids, problem_R = np.unique(np.array(table["problem"].to_pylist()), return_inverse=True)
        names = ("step", "n", "right", "tokens", "right_tokens")
        counts = {f"{name}_R": as_numpy(table[name]).astype(np.int64) for name in names}
        return cls(
            ids.tolist(), problem_R=problem_R, trained_R=as_numpy(table["trained"]), **counts
        )

    @cached_property
    def visits(self) -> Visits:
        """Return each problem's completions of each step, whether trained on or not."""
        # a step may have several rows of a problem: trained on, and replaced ones
        key_R = self.step_R * len(self.ids) + self.problem_R
        key_V, visit_R = np.unique(key_R, return_inverse=True)

        def summed(value_R: IntArray) -> IntArray:
            return np.bincount(visit_R, value_R).astype(np.int64)

        step_V, problem_V = np.divmod(key_V, len(self.ids))
        return Visits(step_V, problem_V, summed(self.n_R), summed(self.right_R))

    def shares(self, of_R: np.ndarray) -> dict[str, float]:
        """Return shares of the rows at `of_R`: groups without signal, and tokens by outcome."""
        trained_R = of_R & self.trained_R
        groups, all_tokens = max(1, trained_R.sum()), max(1, self.tokens_R[of_R].sum())
        wrong_R, right_R = self.right_R == 0, self.right_R == self.n_R
        silent_R = (wrong_R | right_R) & trained_R

        def tokens(value_R: IntArray, at_R: np.ndarray) -> float:
            return float(value_R[at_R].sum() / all_tokens)

        return {
            "groups all right": float((right_R & trained_R).sum() / groups),
            "groups all wrong": float((wrong_R & trained_R).sum() / groups),
            "tokens of right completions": tokens(self.right_tokens_R, of_R),
            "tokens in groups without signal": tokens(self.tokens_R, silent_R),
            "tokens of replaced groups": tokens(self.tokens_R, of_R & ~self.trained_R),
        }


def training(inputs: Inputs) -> Document:
    """Return coverage in training, discovery and forgetting, and what had no signal."""
    ledgers = {
        label: LedgerColumns.from_table(run.require_ledger())
        for label, run in inputs.trained.items()
    }
    coverage = Table(
        "problems that training met",
        columns(
            "run, steps#, completions#, problems#, solved#, at the first visit#, later#, never#"
        ),
        tuple(_coverage(label, ledger) for label, ledger in ledgers.items()),
    )
    revisits = Table(
        "from visit to visit",
        columns(
            "run, problems visited again, pass rate at the first visit, last less first=last − "
            "first, solved and not at the next visit, not solved and solved at the next"
        ),
        tuple(_revisits(label, ledger.visits, inputs.options) for label, ledger in ledgers.items()),
        (
            "last − first has an interval over problems. The other two are shares of pairs of "
            "visits and include chance: with few completions, a problem may count as not solved "
            "at a visit although nothing was forgotten",
        ),
    )
    phases = Table(
        "by thirds of the steps",
        columns(f"share, run, {', '.join(_PHASES)}"),
        tuple(_phases(ledgers)),
        ("groups are those that were trained on; tokens are shares of all that were sampled",),
    )
    return Document(
        name="training",
        title="what training met",
        data={
            "coverage": to_records(coverage),
            "revisits": to_records(revisits),
            "phases": to_records(phases),
        },
        tables=(coverage, revisits, printed_table(phases)),
        sheets={"training": coverage, "training-problems": _problems(ledgers)},
        figures=(Figure("training", partial(draw_lines, _curves(ledgers), AXES)),),
    )


def _coverage(label: str, ledger: LedgerColumns) -> Row:
    visits = ledger.visits
    at_first = int(visits.solved[visits.first].sum())
    solved, problems = len(visits.discovery), visits.problems
    counted = (problems, solved, at_first, solved - at_first, problems - solved)
    return Row((label, len(np.unique(ledger.step_R)), int(ledger.n_R.sum()), *counted))


def _revisits(label: str, visits: Visits, options: Options) -> Row:
    first_P, last_P = visits.rates()
    visit, following = visits.next_of
    was, now = visits.solved[visit], visits.solved[following]

    def share(chosen: np.ndarray, among: np.ndarray) -> Estimate:
        return Estimate(float(chosen[among].mean()) if among.any() else float("nan"))

    begun = Estimate(float(first_P.mean()) if len(first_P) else float("nan"))
    gap = share_gap(last_P, first_P, options)
    return Row((label, len(first_P), begun, gap, share(~now, was), share(now, ~was)))


def _phases(ledgers: Mapping[str, LedgerColumns]) -> list[Row]:
    rows: dict[str, list[Row]] = {}
    for label, ledger in ledgers.items():
        steps = np.array_split(np.unique(ledger.step_R), len(_PHASES))
        thirds = [ledger.shares(np.isin(ledger.step_R, third)) for third in steps]
        for name in thirds[0]:
            cells = [Estimate(third[name]) for third in thirds]
            rows.setdefault(name, []).append(Row((name, label, *cells), section=name))
    return [row for rows in rows.values() for row in rows]


def _curves(ledgers: Mapping[str, LedgerColumns]) -> dict[str, dict[str, Series]]:
    """Return the number of problems solved so far, against each of AXES."""
    along = {label: ledger.visits for label, ledger in ledgers.items()}
    return {
        "problems solved so far": {
            label: visits.solved_by(visits.step_V) for label, visits in along.items()
        },
        "the same for as many completions": {
            label: visits.solved_by(np.cumsum(visits.n_V)) for label, visits in along.items()
        },
    }


def _problems(ledgers: Mapping[str, LedgerColumns]) -> Table:
    """Return a row for each problem of each run."""
    rows = []
    for label, ledger in ledgers.items():
        visits = ledger.visits
        discovered = dict(
            zip(visits.problem_V[visits.discovery], visits.step_V[visits.discovery], strict=True)
        )
        times_P, n_P, right_P = (
            np.bincount(visits.problem_V, weights).astype(int)
            for weights in (None, visits.n_V, visits.right_V)
        )
        for index, id_ in enumerate(ledger.ids):
            first = int(discovered[index]) if index in discovered else "never"
            row = (label, id_, int(times_P[index]), int(n_P[index]), int(right_P[index]), first)
            rows.append(Row(row))
    heads = columns("run, problem, visits, completions, right, first solved at step")
    return Table("every problem", heads, tuple(rows))


TRAINING = Analysis(
    "training",
    "problems that training solved and forgot, groups without signal, tokens",
    training,
    records=True,
)
