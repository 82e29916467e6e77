"""pass@k of the initial policy under p^alpha, the training-free null of "RL only sharpens"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, Options, share_over_problems
from sage_cli.analysis.graded_samples import Answers
from sage_cli.errors import DataError
from sage_cli.metrics import pass_at_k, powers_up_to
from sage_cli.metrics.equal_accuracy import Points, equal_accuracy
from sage_cli.metrics.estimators import BoolArray, FloatArray, effective_size, reweighted_pass_at_k
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.over_temperatures import gap_cells
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns

LEAST_SIZE = 10.0
"""An effective sample size below it is refused."""

_Samples = Sequence[tuple[FloatArray, BoolArray]]
"""Log-probabilities and grades of each problem's samples, both (N,)."""
_NOTES = (
    "each whole sample is weighed by p(text)^(α - 1), normalised problem by problem",
    "a way of solving that no stored sample shows can't be seen here, whatever its weight",
    "effective size: (sum of weights)² / (sum of their squares), the harmonic mean over problems "
    f"and the smallest; an α with an effective size below {LEAST_SIZE:g} is refused, and k goes "
    "up to half of it",
    "pass@k: the jackknife of 1 - (1 - q)^k, q the weighted share of correct samples; at α 1 it is "
    "the usual estimate",
    "at equal pass@1: the run as it is, the base at the α where it has the run's pass@1; a "
    "difference near 0 is what sharpening alone would give",
)


def whole_samples(reading: Answers) -> _Samples:
    """Return the samples that aren't truncated, as a policy scores them."""
    pairs: dict[str, list[tuple[float, bool]]] = {id_: [] for id_ in reading.problems}
    for row, score in reading.scored_rows():
        if row.completion.finish_reason == "stop":
            pairs[row.problem.id].append((score.log_probability, row.right))
    arrays = [np.array(of, float).reshape(-1, 2) for of in pairs.values()]
    return [(array[:, 0], array[:, 1] > 0) for array in arrays]


@dataclass(frozen=True, eq=False)
class Sharpened:
    """pass@k under p^`alpha`, shape (P, K), at powers of two up to half the effective size.

    `size` is the harmonic mean of the problems' sizes: the bias is of the order of the mean of
    1/size. There are no `ks` if it is below LEAST_SIZE. `least` is the smallest size.
    """

    alpha: float
    size: float
    least: float
    ks: tuple[int, ...]
    passed_PK: FloatArray

    @classmethod
    def from_samples(cls, samples: _Samples, alpha: float) -> Sharpened:
        """Return the curve of each problem under p^alpha."""
        weighed = [((alpha - 1) * logp_N, right_N) for logp_N, right_N in samples]
        size_P = np.array([effective_size(log_weight_N) for log_weight_N, _ in weighed])
        size = float(len(size_P) / (1 / size_P).sum()) if size_P.all() else 0.0
        most = min(int(size / 2), *(len(right_N) for _, right_N in samples))
        ks = powers_up_to(most) if size >= LEAST_SIZE else ()
        passed_PK = np.stack([reweighted_pass_at_k(*of, ks) for of in weighed])
        return cls(alpha, size, float(size_P.min()), ks, passed_PK)


def sharpening(inputs: Inputs) -> Document:
    """Return pass@k of the base under p^alpha, and of each run less it at equal pass@1.

    Raises DataError if no alpha above 1 leaves an effective sample size of LEAST_SIZE.
    """
    tables: list[Table] = []
    data: dict[str, list[object]] = {"sharpened": [], "equal_accuracy": []}
    for benchmark, (base, *runs) in inputs.answers.items():
        samples = whole_samples(inputs.readings[benchmark][0])
        alphas = (1.0, *inputs.options.alphas)
        curves = [Sharpened.from_samples(samples, alpha) for alpha in alphas]
        truncated = int(base.counts.n_P.sum()) - sum(len(right_N) for _, right_N in samples)
        left_out = f"{truncated:,} truncated samples of {base.policy} are left out"
        if not any(curve.ks for curve in curves[1:]):
            sizes = ", ".join(f"{curve.size:.1f} at α {curve.alpha:g}" for curve in curves[1:])
            raise DataError(
                f"effective sample size {sizes}, and {LEAST_SIZE:g} are needed; {left_out}",
                "choose an α closer to 1, for example --alpha 1.05, or sample more with --n",
            )
        title = f"{base.policy} under p^α on {benchmark}"
        both = (
            _curve_table(title, curves, inputs.options, left_out),
            _equal_table(f"runs − {title}, at equal pass@1", curves, runs, inputs.options),
        )
        for key, table in zip(data, both, strict=True):
            data[key] += [{"benchmark": benchmark, **record} for record in to_records(table)]
        tables += both
    title = f"{inputs.policies[0]} sharpened without training"
    return Document("sharpening", title, data, tables=tuple(tables), notes=_NOTES)


def _curve_table(title: str, curves: Sequence[Sharpened], options: Options, left_out: str) -> Table:
    ks = curves[0].ks
    rows = []
    for curve in curves:
        passed = [share_over_problems(passed_P, options) for passed_P in curve.passed_PK.T]
        passed += [Estimate(float("nan"))] * (len(ks) - len(passed))
        sizes = (Estimate(size, digits=1) for size in (curve.size, curve.least))
        rows.append(Row((Estimate(curve.alpha, digits=2), *sizes, *passed)))
    names = ", ".join(["α, effective size, smallest", *(f"pass@{k}" for k in ks)])
    return Table(title, columns(names), tuple(rows), (left_out,))


def _equal_table(
    title: str, curves: Sequence[Sharpened], runs: Sequence[Answers], options: Options
) -> Table:
    """Return each run's pass@k minus the base's at the alpha where both have one pass@1.

    A run is one point, which is repeated along the base's curve.
    """
    rows = []
    for run in runs:
        most = min(int(run.counts.n_P.min()), max(curves[1].ks, default=1))
        for k in powers_up_to(most)[1:]:
            # as over temperatures: pass@1 falls along the curve
            along = [curve for curve in reversed(curves) if k in curve.ks]
            own_P2 = pass_at_k(run.counts.n_P, run.counts.c_P, [1, k])
            base_P2T = np.stack([c.passed_PK[:, [0, c.ks.index(k)]] for c in along], axis=2)
            own_P2T = np.repeat(own_P2[:, :, None], len(along), axis=2)
            own, base = (Points(of[:, 0], of[:, 1]) for of in (own_P2T, base_P2T))
            gap = equal_accuracy(own, base, [c.alpha for c in along], 0, options.resampling)
            accuracy, difference, p, _, alpha, _ = gap_cells(gap)
            passed = Estimate(float(own_P2[:, 1].mean()))
            cells = (run.policy, k, passed, accuracy, difference, p, alpha)
            rows.append(Row(cells, section=run.policy))
    return Table(title, columns("policy, k, pass@k, at pass@1, difference, p, α"), tuple(rows))


SHARPENING = Analysis(
    "sharpening",
    "pass@k of the base under p^α without training, compared with the runs at equal pass@1",
    sharpening,
    base=True,
    options=frozenset({"alpha"}),
    readers="base",
)
