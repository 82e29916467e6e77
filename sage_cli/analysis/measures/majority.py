"""Majority votes: maj@k beside pass@k."""

from __future__ import annotations

from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.policy_tables import PolicyMeans
from sage_cli.metrics import parse_ks, pass_at_k
from sage_cli.metrics.counts import FloatArray, maj_at_k
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_lines


def majority(inputs: Inputs) -> Document:
    """Return the chance that a vote of k samples is right, at powers of two, beside pass@k."""
    means = PolicyMeans("measure", inputs.options)
    panels: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {}
    for benchmark, answers in inputs.answers.items():
        n = min(int(graded.counts.n_P.min()) for graded in answers)
        ks = parse_ks(f"1..{n}:pow2", n)
        curves: dict[str, dict[str, FloatArray]] = {"maj": {}, "pass": {}}
        for graded in answers:
            votes, counts = graded.final_answers().values(), graded.counts
            curves["maj"][graded.policy] = np.stack([maj_at_k(vote, ks) for vote in votes])
            curves["pass"][graded.policy] = pass_at_k(counts.n_P, counts.c_P, ks)
        for name, by_policy in curves.items():
            lines = {policy: (np.array(ks), of.mean(axis=0)) for policy, of in by_policy.items()}
            panels[f"{name}@k on {benchmark}"] = lines
            for place, k in enumerate(ks):
                values = {policy: of_PK[:, place] for policy, of_PK in by_policy.items()}
                means.add(benchmark, f"{name}@{k}", values)
    return Document(
        name="majority",
        title="maj@k beside pass@k",
        data={"measures": means.records("mean"), "differences": means.difference_records()},
        tables=means.tables("maj@k and pass@k"),
        sheets={"majority": means.sheet("mean")},
        figures=(Figure("majority", partial(draw_lines, panels, ["k"] * len(panels))),),
        notes=(
            "maj@k: the most frequent answer of k samples is right; answers that are graded right "
            "are one answer, wrong ones differ by their text, unreadable ones don't vote, ties are "
            "broken by lot",
            "without a verifier a user gets maj@k; pass@k takes somebody who picks the right one",
        ),
    )


MAJORITY = Analysis("majority", "maj@k beside pass@k: what a vote among samples gives", majority)
