"""How much probability trained policies leave to the initial policy's right texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from sage_cli.analysis.analysis import Inputs
from sage_cli.analysis.graded_samples import Answers, skeleton
from sage_cli.analysis.policy_tables import share_over_problems
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.series import by_method
from sage_cli.reports.tables import Row, Table, columns

FALLS = (2.0, 5.0, 10.0)
"""Nats by which a log-probability may have fallen."""

Texts = Mapping[str, FloatArray]
"""A problem's right texts, each with its log-probability under each policy (Z,)."""
Unit = Callable[[str], str]
"""The group that a text's probability is added to."""
UNITS: Mapping[str, Unit] = {"problem": lambda _: "", "working": skeleton}


def survival(inputs: Inputs) -> dict[str, Table]:
    """Return benchmark -> table; none if no model has read the base's samples."""
    return {
        benchmark: _table(benchmark, right_texts(readings), inputs)
        for benchmark, readings in inputs.readings.items()
        if readings
    }


def right_texts(readings: Sequence[Answers]) -> Mapping[str, Texts]:
    """Return problem -> its different right texts as all policies read them."""
    texts: dict[str, dict[str, FloatArray]] = {}
    for rows in zip(*(reading.scored_rows() for reading in readings), strict=True):
        sample = rows[0][0]
        if sample.right:
            logp_Z = np.array([score.log_probability for _, score in rows])
            texts.setdefault(sample.problem.id, {})[sample.completion.text] = logp_Z
    return texts


def changes(texts: Texts, unit: Unit) -> FloatArray:
    """Return log sum exp of each unit's texts, less that of the first policy, shape (units, Z)."""
    grouped: dict[str, list[FloatArray]] = {}
    for text, logp_Z in texts.items():
        grouped.setdefault(unit(text), []).append(logp_Z)
    total = np.stack([np.logaddexp.reduce(logps) for logps in grouped.values()])
    difference: FloatArray = total - total[:, :1]
    return difference


def _pairs(policies: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each run with the base, then the seeds of a method with each other."""
    base, *runs = policies
    yield from ((run, base) for run in runs)
    for seeds in by_method(runs).values():
        yield from ((second, first) for first, second in combinations(seeds, 2))


def _table(benchmark: str, texts: Mapping[str, Texts], inputs: Inputs) -> Table:
    policies = inputs.policies
    place = {policy: column for column, policy in enumerate(policies)}
    rows = []
    for name, unit in UNITS.items():
        changed = [changes(of, unit) for of in texts.values()]
        for policy, other in _pairs(policies):
            fallen = [of[:, place[policy]] - of[:, place[other]] for of in changed]
            shares = (
                share_over_problems([(of < -fall).mean() for of in fallen], inputs.options)
                for fall in FALLS
            )
            units = sum(map(len, fallen))
            rows.append(Row((f"{policy} less {other}", name, units, *shares), section=name))
    names = ", ".join(["difference", "by", "number", *(f"below −{fall:g}" for fall in FALLS)])
    return Table(
        f"survival of the right texts of {policies[0]} on {benchmark}",
        columns(names),
        tuple(rows),
        (
            "log π less log π at temperature 1, of the right texts that the base's samples hold, "
            "added up problem by problem or working by working (texts with one skeleton): the "
            "share that fell by more nats, mean over problems with a right text; between two "
            "seeds of one method it is the control",
        ),
    )
