"""pass@1 by properties of a benchmark's problems: level, subject, number of people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.tables import PolicyMeans
from sage_cli.errors import DataError
from sage_cli.problems.problem import Problem
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dot_plot import draw_dot_plot
from sage_cli.reports.tables.table import Record

MOST = 20
"""A property with more values than this does not sort problems into kinds."""
NO_KIND = ("origin",)


LevelsData = TypedDict("LevelsData", {"pass@1": list[Record], "differences": list[Record]})
"""pass@1 by kind of problem, and the differences to the first policy."""


def levels(inputs: Inputs) -> Document:
    """Return pass@1 on each kind of problem, and the paired differences to the first policy.

    Raises DataError if no benchmark has properties of problems.
    """
    means = PolicyMeans("kind", inputs.options)
    for benchmark, answers in inputs.answers.items():
        for kind, members in kinds(answers[0].benchmark.problems).items():
            values = {own.policy: own.right_shares[members] for own in answers}
            means.add(benchmark, f"{kind} ({len(members)})", values)
    if not means.means:
        raise DataError(
            f"{', '.join(inputs.answers)}: nothing is said of the problems but question and gold",
            "name a benchmark with levels, subjects or numbers of people (`sage data list`), as "
            "math500 or kk-generated",
        )
    data = {"pass@1": means.records("pass@1"), "differences": means.difference_records()}
    return Document(
        name="levels",
        title="pass@1 by kind of problem",
        data=LevelsData(**data),  # type: ignore[typeddict-item]
        tables=means.tables("pass@1 by kind of problem", heading="kind (problems)"),
        sheets={"levels": means.sheet("pass@1")},
        figures=(Figure("levels", partial(draw_dot_plot, means.means, "pass@1")),),
        notes=("a kind of few problems has a wide interval; a kind of one has none",),
    )


def kinds(problems: Sequence[Problem]) -> dict[str, list[int]]:
    """Return `level 5` -> places of its problems, for every property that sorts all problems.

    Such a property is a word or a number that every problem has, with 2 to MOST values.
    """
    places: dict[str, list[int]] = {}
    for name in problems[0].meta if problems else ():
        values = [problem.meta.get(name) for problem in problems]
        plain = all(isinstance(value, str | int) for value in values)
        if name in NO_KIND or not plain or not 2 <= len(set(values)) <= min(MOST, len(values) - 1):
            continue
        for value in sorted(set(values), key=lambda one: (isinstance(one, str), one)):
            places[f"{name} {value}"] = np.flatnonzero([one == value for one in values]).tolist()
    return places


LEVELS = Analysis(
    "levels",
    "pass@1 by level, subject or size, where the benchmark has them",
    levels,
    LevelsData,
)
