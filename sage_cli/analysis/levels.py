"""pass@1 by what a benchmark says of its problems: level, subject, people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.material import Material
from sage_cli.analysis.means import share_gap, share_over_problems
from sage_cli.analysis.pictures import dots
from sage_cli.analysis.tables import long_table, records, tables_with_differences
from sage_cli.errors import DataError
from sage_cli.problems.problem import Problem
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record
from sage_cli.reports.table import Measure

MOST = 20
"""A property with more values than that tells problems apart, not kinds of them."""
NO_KIND = ("origin",)


LevelsData = TypedDict("LevelsData", {"pass@1": list[Record], "differences": list[Record]})
"""pass@1 by kind of problem, and the differences to the first policy."""


def levels(material: Material) -> Document:
    """pass@1 on each kind of problem, and the paired difference to the first policy's.

    Raises DataError where no benchmark says anything of its problems.
    """
    asked, first = material.asked, material.policies[0]
    found: dict[str, dict[str, dict[str, Measure]]] = {}
    gaps: dict[str, dict[str, dict[str, Measure]]] = {}
    for benchmark, answers in material.answers.items():
        share = {one.policy: one.counts.c_P / one.counts.n_P for one in answers}
        for kind, members in kinds(answers[0].benchmark.problems).items():
            name = f"{kind} ({len(members)})"
            found.setdefault(benchmark, {})[name] = {
                policy: share_over_problems(share_P[members], asked)
                for policy, share_P in share.items()
            }
            gaps.setdefault(benchmark, {})[name] = {
                policy: share_gap(share_P[members], share[first][members], asked)
                for policy, share_P in share.items()
                if policy != first
            }
    if not found:
        raise DataError(
            f"{', '.join(material.answers)}: nothing is said of the problems but question and gold",
            "name a benchmark with levels, subjects or numbers of people (`sage data list`), as "
            "math500 or kk-generated",
        )
    tables = tables_with_differences(
        "pass@1 by kind of problem", "kind (problems)", found, gaps, first
    )
    return Document(
        name="levels",
        title="pass@1 by kind of problem",
        provenance=material.provenance,
        data=LevelsData(
            {
                "pass@1": records("kind", found, "pass@1"),
                "differences": records("kind", gaps, "difference"),
            }
        ),
        tables=tuple(tables),
        sheets={"levels": long_table("pass@1", "kind", found, "pass@1")},
        figures=(dots("levels", found, "pass@1"),),
        notes=("a kind of few problems has a wide interval; a kind of one has none",),
    )


def kinds(problems: Sequence[Problem]) -> dict[str, list[int]]:
    """`level 5` -> places of its problems, for every property that sorts all problems into kinds.

    It is one that every problem has, as a word or a number, with 2 to MOST values.
    """
    found: dict[str, list[int]] = {}
    for name in problems[0].meta if problems else ():
        values = [problem.meta.get(name) for problem in problems]
        plain = all(isinstance(value, str | int) for value in values)
        if name in NO_KIND or not plain or not 2 <= len(set(values)) <= min(MOST, len(values) - 1):
            continue
        for value in sorted(set(values), key=lambda one: (isinstance(one, str), one)):
            found[f"{name} {value}"] = np.flatnonzero([one == value for one in values]).tolist()
    return found


LEVELS = Analysis(
    "levels",
    "pass@1 by level, subject or size, where the benchmark has them",
    levels,
    LevelsData,
)
