"""pass@k of the initial policy under p^alpha, the training-free null of "RL only sharpens"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, Options
from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.policy_tables import share_over_problems
from sage_cli.errors import DataError
from sage_cli.metrics import parse_ks, pass_at_k
from sage_cli.metrics.counts import BoolArray, FloatArray, effective_size, reweighted_pass_at_k
from sage_cli.metrics.equal_accuracy import NotReached, Points, equal_accuracy
from sage_cli.reports.document import Document
from sage_cli.reports.tables import Cell, Estimate, Row, Table, columns, to_records

LEAST_SIZE = 10.0
"""An effective sample size below it is refused."""


@dataclass(frozen=True, eq=False)
class WholeSamples:
    """A policy's whole samples of each problem: log-probabilities and grades, both (N,)."""

    by_problem: Sequence[tuple[FloatArray, BoolArray]]
    truncated: int

    @classmethod
    def from_reading(cls, reading: Answers) -> WholeSamples:
        """Return the samples as their own policy scores them."""
        pairs: dict[str, list[tuple[float, bool]]] = {id_: [] for id_ in reading.problems}
        truncated = 0
        for row, score in reading.scored_rows():
            if row.completion.finish_reason == "length":
                truncated += 1
            else:
                pairs[row.problem.id].append((score.log_probability, row.right))
        arrays = [np.array(of, float).reshape(-1, 2) for of in pairs.values()]
        return cls([(of[:, 0], of[:, 1].astype(bool)) for of in arrays], truncated)

    def effective_sizes(self, alpha: float) -> FloatArray:
        """Return the effective sample size of each problem under p^alpha."""
        return np.array([effective_size((alpha - 1) * logp) for logp, _ in self.by_problem])


@dataclass(frozen=True, eq=False)
class Sharpened:
    """pass@k under p^`alpha`, shape (P, K), at powers of two up to half the effective size.

    `size` is the harmonic mean of the problems' sizes: the bias is of the order of the mean of
    1/size. There are no `ks` if it is below LEAST_SIZE.
    """

    alpha: float
    size: float
    least: float
    ks: tuple[int, ...]
    passed_PK: FloatArray

    @classmethod
    def from_samples(cls, samples: WholeSamples, alpha: float) -> Sharpened:
        """Return the curve of each problem under p^alpha."""
        size_P = samples.effective_sizes(alpha)
        size = float(len(size_P) / (1 / size_P).sum()) if size_P.all() else 0.0
        most = min(int(size / 2), *(len(logp) for logp, _ in samples.by_problem))
        ks = parse_ks(f"1..{most}:pow2", most) if size >= LEAST_SIZE and most else ()
        rows = [
            reweighted_pass_at_k((alpha - 1) * logp, right, ks)
            for logp, right in samples.by_problem
        ]
        return cls(alpha, size, float(size_P.min()), ks, np.stack(rows))

    def points(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return pass@1 and pass@k of each problem."""
        return self.passed_PK[:, 0], self.passed_PK[:, self.ks.index(k)]


def sharpening(inputs: Inputs) -> Document:
    """Return pass@k of the base under p^alpha, and of each run less it at equal pass@1.

    Raises DataError if no alpha above 1 leaves an effective sample size of LEAST_SIZE.
    """
    tables: list[Table] = []
    data: dict[str, list[object]] = {"sharpened": [], "equal_accuracy": []}
    truncated = 0
    for benchmark, (base, *runs) in inputs.answers.items():
        samples = WholeSamples.from_reading(inputs.readings[benchmark][0])
        truncated += samples.truncated
        alphas = (1.0, *inputs.options.alphas)
        curves = [Sharpened.from_samples(samples, alpha) for alpha in alphas]
        _require_size(curves[1:], benchmark, truncated)
        title = f"{base.policy} under p^α on {benchmark}"
        both = (
            _curve_table(title, curves, inputs.options),
            _equal_table(f"less {title}, at equal pass@1", curves, runs, inputs.options),
        )
        for key, table in zip(data, both, strict=True):
            data[key] += [{"benchmark": benchmark, **record} for record in to_records(table)]
        tables += both
    return Document(
        name="sharpening",
        title=f"{inputs.policies[0]} sharpened without training",
        data={**data, "truncated": truncated},
        tables=tuple(tables),
        notes=_notes(truncated),
    )


def _require_size(curves: Sequence[Sharpened], benchmark: str, truncated: int) -> None:
    if any(curve.ks for curve in curves):
        return
    sizes = ", ".join(f"{curve.size:.1f} at α {curve.alpha:g}" for curve in curves)
    raise DataError(
        f"the samples of {benchmark} are too few to be weighed: effective sample size {sizes}, "
        f"and {LEAST_SIZE:g} are needed"
        + (f"; {truncated:,} truncated samples are left out" if truncated else ""),
        "name an α nearer 1, as --alpha 1.05, or sample more with --n",
    )


def _curve_table(title: str, curves: Sequence[Sharpened], options: Options) -> Table:
    ks = curves[0].ks
    rows = []
    for curve in curves:
        passed = [share_over_problems(passed_P, options) for passed_P in curve.passed_PK.T]
        missing = [Estimate(float("nan"))] * (len(ks) - len(passed))
        sizes = (Estimate(size, digits=1) for size in (curve.size, curve.least))
        rows.append(Row((Estimate(curve.alpha, digits=2), *sizes, *passed, *missing)))
    names = ", ".join(["α, effective size, smallest", *(f"pass@{k}" for k in ks)])
    return Table(title, columns(names), tuple(rows))


def _equal_table(
    title: str, curves: Sequence[Sharpened], runs: Sequence[Answers], options: Options
) -> Table:
    """Return each run's pass@k less the sharpened base's, where both have the run's pass@1."""
    rows = []
    for run in runs:
        most = min(int(run.counts.n_P.min()), max(curves[1].ks, default=1))
        for k in parse_ks(f"1..{most}:pow2", most)[1:]:
            # as over temperatures: pass@1 falls along the curve
            along = [curve for curve in reversed(curves) if k in curve.ks]
            rows.append(Row((run.policy, k, *_cells(run, along, k, options)), run.policy))
    names = "policy, k, pass@1, its pass@k, difference, p, α"
    return Table(title, columns(names), tuple(rows))


def _cells(run: Answers, along: Sequence[Sharpened], k: int, options: Options) -> list[Cell]:
    """Return the cells of a run; it is one point, which is repeated along the base's curve."""
    own_P2 = pass_at_k(run.counts.n_P, run.counts.c_P, [1, k])
    own = Points(*(np.repeat(own_P2[:, [column]], len(along), axis=1) for column in (0, 1)))
    base = Points(*(np.stack(of, axis=1) for of in zip(*(c.points(k) for c in along), strict=True)))
    gap = equal_accuracy(own, base, [curve.alpha for curve in along], 0, options.resampling)
    accuracy, passed = (Estimate(float(mean)) for mean in own_P2.mean(axis=0))
    if isinstance(gap, NotReached):
        return [accuracy, passed, gap.reason, *[Estimate(float("nan"))] * 2]
    difference = Estimate(gap.difference, interval=(gap.low, gap.high), signed=True)
    at = Estimate(gap.other_at, digits=2)
    return [accuracy, passed, difference, Estimate(gap.p, tiny=True), at]


def _notes(truncated: int) -> tuple[str, ...]:
    left_out = f"; {truncated:,} truncated ones are left out" if truncated else ""
    return (
        f"each whole sample is weighed by p(text)^(α - 1), normalised problem by problem{left_out}",
        "a way of solving that no stored sample shows can't be seen here, whatever its weight",
        "effective size: (sum of weights)² / (sum of their squares), the harmonic mean over "
        f"problems and the smallest; an α with less than {LEAST_SIZE:g} is refused, and k goes up "
        "to half of it",
        "pass@k: the jackknife of 1 - (1 - q)^k, q the weighted share of right samples; at α 1 it "
        "is the usual estimate",
        "at equal pass@1: the run as it is, the base at the α where it has the run's pass@1, "
        "interpolated; a difference near 0 is what sharpening alone would give",
    )


SHARPENING = Analysis(
    "sharpening",
    "pass@k of the base under p^α without training, beside the runs at equal pass@1",
    sharpening,
    base=True,
    options=frozenset({"alpha"}),
    readers="base",
    plain=True,
)
