"""How often several samples are correct together: majority votes, pass^k, G-Pass@k, Cover@tau."""

from __future__ import annotations

from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, PolicyMeans
from sage_cli.analysis.graded_samples import Answers
from sage_cli.metrics import pass_at_k, powers_up_to
from sage_cli.metrics.counts import majority_values
from sage_cli.metrics.estimators import FloatArray, all_right_at_k, covered_at, g_pass_at_k
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dots import draw_dot_plot
from sage_cli.reports.figures.panels import draw_lines

SHARES = (0.25, 0.5, 0.75)
"""tau of G-Pass@k and Cover@tau; 1 is pass^k."""
_MOST = 16
"""The largest k of pass^k: beyond it hardly any problem has a chance."""


def majority(inputs: Inputs) -> Document:
    """Return the chance that a vote of k samples is correct, at powers of two, beside pass@k."""
    means = PolicyMeans("measure", inputs.options)
    panels: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    for benchmark, answers in inputs.answers.items():
        n = min(int(graded.counts.n_P.min()) for graded in answers)
        ks = powers_up_to(n)
        curves: dict[str, dict[str, FloatArray]] = {"maj": {}, "pass": {}}
        for graded in answers:
            counts = graded.counts
            curves["maj"][graded.policy] = majority_values(graded.votes(), ks)
            curves["pass"][graded.policy] = pass_at_k(counts.n_P, counts.c_P, ks)
        for name, by_policy in curves.items():
            lines = {policy: (np.array(ks), of.mean(axis=0)) for policy, of in by_policy.items()}
            panels[f"{name}@k on {benchmark}"] = lines
            for column, k in enumerate(ks):
                values = {policy: of_PK[:, column] for policy, of_PK in by_policy.items()}
                means.add(benchmark, f"{name}@{k}", values)
    return Document(
        name="majority",
        title="maj@k beside pass@k",
        data={"measures": means.records("mean"), "differences": means.difference_records()},
        tables=means.tables("maj@k and pass@k"),
        sheets={"majority": means.sheet("mean")},
        figures=(Figure("majority", partial(draw_lines, panels, ["k"] * len(panels))),),
        notes=(
            "maj@k: the probability that the most frequent answer of k samples is correct. All "
            "correct answers count as one, wrong ones differ by their text, unparseable ones do "
            "not vote, and ties are broken at random",
            "a user without a verifier gets maj@k; pass@k needs somebody who picks the correct "
            "sample",
        ),
    )


MAJORITY = Analysis("majority", "maj@k and pass@k: what a vote among samples gives", majority)


def reliability(inputs: Inputs) -> Document:
    """Return pass^k, G-Pass@k and Cover@tau of each policy, with intervals over problems."""
    means = PolicyMeans("measure", inputs.options)
    for benchmark, answers in inputs.answers.items():
        _add(means, benchmark, answers)
    return Document(
        name="reliability",
        title="pass^k, G-Pass@k and Cover@tau",
        data={"measures": means.records("mean"), "differences": means.difference_records()},
        tables=means.tables("reliability"),
        sheets={"reliability": means.sheet("mean")},
        figures=(Figure("reliability", partial(draw_dot_plot, means.means, "share")),),
        notes=(
            "pass^k: the probability that all of k samples are correct; G-Pass@k: that at least "
            "tau k of them are. Both estimates are unbiased",
            "Cover@tau: the share of problems of which at least the share tau of all samples is "
            "correct; chance decides for a problem whose pass rate is near tau",
        ),
    )


def _add(means: PolicyMeans, benchmark: str, answers: tuple[Answers, ...]) -> None:
    counts = {graded.policy: (graded.counts.n_P, graded.counts.c_P) for graded in answers}
    n = min(int(n_P.min()) for n_P, _ in counts.values())
    ks = powers_up_to(min(n, _MOST))
    for column, k in enumerate(ks):
        values = {p: all_right_at_k(*n_c, ks)[:, column] for p, n_c in counts.items()}
        means.add(benchmark, f"pass^{k}", values)
    for tau in SHARES:
        values = {p: g_pass_at_k(*n_c, ks, tau)[:, -1] for p, n_c in counts.items()}
        means.add(benchmark, f"G-Pass@{ks[-1]}, tau {tau:g}", values)
    for column, tau in enumerate(SHARES):
        values = {p: covered_at(*n_c, SHARES)[:, column] for p, n_c in counts.items()}
        means.add(benchmark, f"Cover@{tau:g}", values)


RELIABILITY = Analysis(
    "reliability",
    "how often all or a share of k samples are correct: pass^k, G-Pass@k, Cover@tau",
    reliability,
)
