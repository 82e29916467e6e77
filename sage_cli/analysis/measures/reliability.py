"""Reliability beside coverage: how often all, most or a share of k samples are right."""

from __future__ import annotations

from functools import partial

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.policy_tables import PolicyMeans
from sage_cli.metrics import parse_ks
from sage_cli.metrics.counts import all_right_at_k, covered_at, g_pass_at_k
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_dot_plot

SHARES = (0.25, 0.5, 0.75)
"""tau of G-Pass@k and Cover@tau; 1 is pass^k."""
MOST = 16
"""The largest k of pass^k: beyond it hardly any problem has a chance."""


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
            "pass^k: the chance that all of k samples are right; G-Pass@k: that at least tau k of "
            "them are; both without bias",
            "Cover@tau: the share of problems of which at least tau of all samples are right; a "
            "problem whose chance lies near tau falls on either side",
        ),
    )


def _add(means: PolicyMeans, benchmark: str, answers: tuple[Answers, ...]) -> None:
    counts = {graded.policy: (graded.counts.n_P, graded.counts.c_P) for graded in answers}
    n = min(int(n_P.min()) for n_P, _ in counts.values())
    ks = parse_ks(f"1..{min(n, MOST)}:pow2", n)
    for place, k in enumerate(ks):
        values = {p: all_right_at_k(*n_c, ks)[:, place] for p, n_c in counts.items()}
        means.add(benchmark, f"pass^{k}", values)
    for tau in SHARES:
        values = {p: g_pass_at_k(*n_c, ks, tau)[:, -1] for p, n_c in counts.items()}
        means.add(benchmark, f"G-Pass@{ks[-1]}, tau {tau:g}", values)
    for place, tau in enumerate(SHARES):
        values = {p: covered_at(*n_c, SHARES)[:, place] for p, n_c in counts.items()}
        means.add(benchmark, f"Cover@{tau:g}", values)


RELIABILITY = Analysis(
    "reliability",
    "how often all or a share of k samples are right: pass^k, G-Pass@k, Cover@tau",
    reliability,
)
