"""Majority votes: maj@k beside pass@k."""

from __future__ import annotations

from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, Options
from sage_cli.analysis.graded_samples import Answers
from sage_cli.metrics import Curve, parse_ks
from sage_cli.metrics.counts import maj_at_k
from sage_cli.metrics.intervals import curve, gaffke
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_curves
from sage_cli.reports.passk import value_at
from sage_cli.reports.tables import Column, Row, Table, columns


def majority(inputs: Inputs) -> Document:
    """Return the chance that a vote of k samples is right, at powers of two, beside pass@k."""
    options = inputs.options
    curves: dict[str, dict[str, tuple[Curve, Curve]]] = {}
    for benchmark, answers in inputs.answers.items():
        n = min(int(graded.counts.n_P.min()) for graded in answers)
        ks = parse_ks(f"1..{n}:pow2", n)
        curves[benchmark] = {
            graded.policy: (
                majority_curve(graded, ks, options),
                curve(graded.counts, ks, options.resampling),
            )
            for graded in answers
        }
    panels = {
        f"{which} on {benchmark}": {policy: pair[place] for policy, pair in by_policy.items()}
        for benchmark, by_policy in curves.items()
        for which, place in (("pass@k", 1), ("maj@k", 0))
    }
    data = [
        {
            "benchmark": benchmark,
            "policy": policy,
            "k": list(maj.ks),
            "maj@k": maj.mean_K,
            "low": maj.low_K,
            "high": maj.high_K,
            "pass@k": passed.mean_K,
        }
        for benchmark, by_policy in curves.items()
        for policy, (maj, passed) in by_policy.items()
    ]
    return Document(
        name="majority",
        title="maj@k beside pass@k",
        data={"curves": data},
        tables=tuple(_table(benchmark, by_policy) for benchmark, by_policy in curves.items()),
        sheets={"majority": _sheet(curves)},
        figures=(Figure("majority", partial(draw_curves, panels)),),
        notes=(
            "maj@k: the most frequent answer of k samples is right; answers that are graded right "
            "are one answer, wrong ones differ by their text, unreadable ones don't vote, ties are "
            "broken by lot",
            "without a verifier a user gets maj@k; pass@k takes somebody who picks the right one",
        ),
    )


def majority_curve(answers: Answers, ks: tuple[int, ...] | list[int], options: Options) -> Curve:
    """Return maj@k over problems with Gaffke's band."""
    votes = answers.final_answers().values()
    maj_PK = np.stack([maj_at_k(vote, ks) for vote in votes])
    band = gaffke(maj_PK, (0, 1), options.resampling)
    mean_K = maj_PK.mean(axis=0)
    return Curve(tuple(ks), mean_K, band.low_K, band.high_K, options.confidence, len(maj_PK))


def _table(benchmark: str, curves: dict[str, tuple[Curve, Curve]]) -> Table:
    names = ("maj@k", "pass@k")
    heads = (Column("k"), *(Column(name, policy) for policy in curves for name in names))
    ks = next(iter(curves.values()))[0].ks
    rows = tuple(
        Row((k, *(value_at(curve, k) for pair in curves.values() for curve in pair))) for k in ks
    )
    return Table(f"maj@k and pass@k on {benchmark}", heads, rows)


def _sheet(curves: dict[str, dict[str, tuple[Curve, Curve]]]) -> Table:
    rows = tuple(
        Row((benchmark, policy, k, *(value_at(curve, k) for curve in pair)))
        for benchmark, by_policy in curves.items()
        for policy, pair in by_policy.items()
        for k in pair[0].ks
    )
    return Table("maj@k and pass@k", columns("benchmark, policy, k, maj@k, pass@k"), rows)


MAJORITY = Analysis("majority", "maj@k beside pass@k: what a vote among samples gives", majority)
