"""Perplexity of completions under the base (Eq. 39, Figure 7; Yue et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import (
    Analysis,
    Inputs,
    Options,
    by_problem,
    long_table,
    mean_over_problems,
    records,
    share_over_problems,
    wide_table,
)
from sage_cli.analysis.graded_samples import Answers
from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.panels import draw_ecdf

BEYOND = (0.95, 0.99)
"""Quantiles of the base's own perplexities on a problem; values above them are its tail."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SINGLE_PANELS = 4
"""With at most this many problems each has a panel of its own, as in Figure 7."""

Perplexities = dict[bool, list[FloatArray]]
"""For correct answers (True) or all: the perplexities of each problem's completions."""


def perplexity(inputs: Inputs) -> Document:
    """Return mean log, quantiles and tails of each policy, of all and of correct completions."""
    results: dict[str, dict[str, dict[str, Estimate]]] = {}
    panels: dict[str, dict[str, FloatArray]] = {}
    for benchmark, answers in inputs.answers.items():
        values = {graded.policy: perplexities(graded) for graded in answers}
        base = values[answers[0].policy]
        for right in (False, True):
            for policy, lists in values.items():
                for item, measure in _measures(lists[right], base[right], inputs.options).items():
                    name = f"{item}, right ones" if right else item
                    results.setdefault(benchmark, {}).setdefault(name, {})[policy] = measure
        ids = list(answers[0].problems)
        if len(ids) <= SINGLE_PANELS:
            for index, id_ in enumerate(ids):
                panels[f"{benchmark} {id_[:8]}"] = {
                    policy: lists[False][index] for policy, lists in values.items()
                }
        else:
            panels[benchmark] = {
                policy: np.concatenate(lists[False]) for policy, lists in values.items()
            }
    base_label = inputs.policies[0]
    title = f"perplexity under {base_label}"
    return Document(
        name="perplexity",
        title=title,
        data={"base": base_label, "perplexity": records("measure", results, "value")},
        tables=(wide_table(f"perplexity of completions under {base_label}", "measure", results),),
        sheets={"perplexity": long_table("measure", results, "value")},
        figures=(Figure("perplexity", partial(draw_ecdf, panels, title)),),
        notes=(
            "perplexity (Eq. 39): exp of the mean surprisal of a completion's tokens, at "
            "temperature 1, given the prompt",
            f"beyond the base's {BEYOND[0]:.0%}: the share of completions less probable than all "
            f"but {1 - BEYOND[0]:.0%} of the base's on the same problem, mean over problems; each "
            "of the base's own completions is compared with its others, so that a policy equal to "
            "the base shows about the same share",
            "quantiles are over all completions together, and have no interval",
        ),
    )


def perplexities(answers: Answers) -> Perplexities:
    """Return each problem's perplexities; a completion without tokens has none."""
    ids = list(answers.problems)
    rows = [
        (row.problem.id, row.right, float(np.exp(score.surprisal)))
        for row, score in answers.scored_rows()
    ]
    return {
        only_right: by_problem(
            ids, ((id_, value) for id_, right, value in rows if right or not only_right)
        )[0]
        for only_right in (False, True)
    }


def _measures(
    values: list[FloatArray], base: list[FloatArray], options: Options
) -> Mapping[str, Estimate]:
    pooled = np.concatenate(values)
    log_P = [float(np.log(value_S).mean()) if len(value_S) else np.nan for value_S in values]
    measures = {"mean log": mean_over_problems(log_P, options)}
    for share in BEYOND:
        beyond_P = [
            beyond_others(value_S, share) if values is base else beyond(value_S, base_S, share)
            for value_S, base_S in zip(values, base, strict=True)
        ]
        name = f"beyond the base's {share:.0%}"
        measures[name] = share_over_problems(beyond_P, options)
    for share in QUANTILES:
        quantile = float(np.quantile(pooled, share)) if len(pooled) else np.nan
        measures[f"{share:.0%} quantile"] = Estimate(quantile)
    return measures


def beyond(values: FloatArray, base: FloatArray, share: float) -> float:
    """Return the share of `values` above the `share` quantile of the base's; NaN without either."""
    if not len(values) or not len(base):
        return float("nan")
    return float((values > np.quantile(base, share, method="higher")).mean())


def beyond_others(base: FloatArray, share: float) -> float:
    """Return how often one of the base's values exceeds the `share` quantile of its others.

    It is the expectation of `beyond` for an equal policy; NaN for a single value.
    """
    n = len(base)
    if n < 2:
        return float("nan")
    # the quantile of the n - 1 others has the same rank for all values that lie above it
    index = int(np.ceil(share * (n - 2) - 1e-9))
    return float((base > np.sort(base)[index]).mean())


PERPLEXITY = Analysis(
    "perplexity",
    "how probable completions are under the base: distribution and tails (Eq. 39, Figure 7)",
    perplexity,
    base=True,
    scorer="base",
)
