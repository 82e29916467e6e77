"""maj@k beside pass@k."""

from __future__ import annotations

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Asked, Material
from sage_cli.analysis.means import SEED
from sage_cli.metrics import Curve, parse_ks
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.majority import maj_at_k
from sage_cli.metrics.intervals.bands import curve
from sage_cli.metrics.intervals.gaffke import gaffke
from sage_cli.reports.document import Document
from sage_cli.reports.passk import curves_figure
from sage_cli.reports.table import Column, Measure, Row, Table

VoteJson = TypedDict(
    "VoteJson",
    {
        "benchmark": str,
        "policy": str,
        "k": list[int],
        "maj@k": FloatArray,
        "low": FloatArray,
        "high": FloatArray,
        "pass@k": FloatArray,
    },
)
"""maj@k with its band, a value for each k, and pass@k beside it."""


class MajorityData(TypedDict):
    """A curve for each policy and benchmark."""

    curves: list[VoteJson]


def majority(material: Material) -> Document:
    """The chance that a vote of k samples is right, at powers of two, beside pass@k."""
    curves: dict[str, dict[str, tuple[Curve, Curve]]] = {}
    for benchmark, answers in material.answers.items():
        n = min(int(one.counts.n_P.min()) for one in answers)
        ks = parse_ks(f"1..{n}:pow2", n)
        curves[benchmark] = {
            one.policy: (
                majority_curve(one, ks, material.asked),
                curve(one.counts, ks, confidence=material.asked.confidence,
                      resamples=material.asked.resamples),
            )
            for one in answers
        }  # fmt: skip
    return Document(
        name="majority",
        title="maj@k beside pass@k",
        provenance=material.provenance,
        data=MajorityData(
            curves=[
                {"benchmark": benchmark, "policy": policy, "k": list(maj.ks),
                 "maj@k": maj.mean_K, "low": maj.low_K, "high": maj.high_K, "pass@k": passed.mean_K}
                for benchmark, by_policy in curves.items()
                for policy, (maj, passed) in by_policy.items()
            ]
        ),
        tables=tuple(_table(benchmark, of) for benchmark, of in curves.items()),
        sheets={"majority": _sheet(curves)},
        figures=(
            curves_figure(
                "majority",
                {
                    f"{which} on {benchmark}": {
                        policy: pair[place] for policy, pair in by_policy.items()
                    }
                    for benchmark, by_policy in curves.items()
                    for which, place in (("pass@k", 1), ("maj@k", 0))
                },
            ),
        ),
        notes=(
            "maj@k: the most frequent answer of k samples is right; answers that are graded right "
            "are one answer, wrong ones differ by their text, unreadable ones don't vote, ties are "
            "broken by lot",
            "without a verifier a user gets maj@k; pass@k takes somebody who picks the right one",
        ),
    )  # fmt: skip


def majority_curve(answers: Answers, ks: tuple[int, ...] | list[int], asked: Asked) -> Curve:
    """maj@k over problems with Gaffke's band."""
    votes = answers.final_answers().values()
    maj_PK = np.stack([maj_at_k(of, ks, seed=SEED) for of in votes])
    band = gaffke(maj_PK, (0, 1), confidence=asked.confidence, resamples=asked.resamples, seed=SEED)
    return Curve(tuple(ks), maj_PK.mean(axis=0), band.low_K, band.high_K, asked.confidence,
                 len(maj_PK))  # fmt: skip


def _table(benchmark: str, of: dict[str, tuple[Curve, Curve]]) -> Table:
    names = ("maj@k", "pass@k")
    columns = (Column("k"), *(Column(name, policy) for policy in of for name in names))
    ks = next(iter(of.values()))[0].ks
    rows = tuple(Row((k, *(_at(one, k) for pair in of.values() for one in pair))) for k in ks)
    return Table(f"maj@k and pass@k on {benchmark}", columns, rows)


def _sheet(curves: dict[str, dict[str, tuple[Curve, Curve]]]) -> Table:
    columns = tuple(map(Column, ("benchmark", "policy", "k", "maj@k", "pass@k")))
    rows = tuple(
        Row((benchmark, policy, k, *(_at(one, k) for one in pair)))
        for benchmark, by_policy in curves.items()
        for policy, pair in by_policy.items()
        for k in pair[0].ks
    )
    return Table("maj@k and pass@k", columns, rows)


def _at(one: Curve, k: int) -> Measure:
    mean, low, high = one.at(k)
    return Measure(mean, interval=(low, high))


MAJORITY = Analysis(
    "majority", "maj@k beside pass@k: what a vote among samples gives", majority, MajorityData
)
