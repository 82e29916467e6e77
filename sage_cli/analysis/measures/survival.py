"""How much probability trained policies leave to the initial policy's right texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from sage_cli.analysis.analysis import Inputs
from sage_cli.analysis.graded_samples import Answers, skeleton
from sage_cli.analysis.policy_tables import Results, share_over_problems
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.series import by_method
from sage_cli.reports.tables import Estimate

FALLS = (2.0, 5.0, 10.0)
"""Nats by which a log-probability may have fallen."""
UNITS = ("problem", "working")
"""Right texts of a problem are added up, or of those the texts with one skeleton."""
SURVIVAL_NOTES = (
    "log π less log π at temperature 1, of the base's right samples, problem by problem or working "
    "by working (texts with one skeleton): the share that fell by more, mean over problems with "
    "one; between two seeds of one method it is the control",
)


def survival(inputs: Inputs) -> Results:
    """Return the shares that fell by more, mean over problems; none if no model has read texts."""
    results: dict[str, dict[str, dict[str, Estimate]]] = {}
    for benchmark, readings in inputs.readings.items():
        texts = right_texts(readings)
        for unit, (policy, other) in product(UNITS, _pairs(inputs.policies) if readings else ()):
            place, less = inputs.policies.index(policy), inputs.policies.index(other)
            logps = [added_up(of, unit) for of in texts.values()]
            changes = [logp_Z[:, place] - logp_Z[:, less] for logp_Z in logps]
            for fall in FALLS:
                item = results.setdefault(benchmark, {}).setdefault(f"{unit}: −{fall:g} nats", {})
                shares = [(change < -fall).mean() for change in changes]
                item[f"{policy} less {other}"] = share_over_problems(shares, inputs.options)
    return results


def right_texts(readings: Sequence[Answers]) -> dict[str, dict[str, FloatArray]]:
    """Return problem -> right text -> its log-probability under each policy (Z,)."""
    texts: dict[str, dict[str, FloatArray]] = {}
    for rows in zip(*(reading.scored_rows() for reading in readings), strict=True):
        sample = rows[0][0]
        if sample.right:
            logp_Z = np.array([score.log_probability for _, score in rows])
            texts.setdefault(sample.problem.id, {})[sample.completion.text] = logp_Z
    return texts


def added_up(texts: Mapping[str, FloatArray], unit: str) -> FloatArray:
    """Return the log-probability of each unit's texts together, shape (units, Z)."""
    grouped: dict[str, list[FloatArray]] = {}
    for text, logp_Z in texts.items():
        grouped.setdefault(skeleton(text) if unit == "working" else "", []).append(logp_Z)
    return np.stack([np.logaddexp.reduce(logps) for logps in grouped.values()])


def _pairs(policies: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each run with the base, then the seeds of a method with each other."""
    base, *runs = policies
    yield from ((run, base) for run in runs)
    for seeds in by_method(runs).values():
        yield from ((second, first) for first, second in combinations(seeds, 2))
