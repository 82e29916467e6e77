"""Which ways of solving a policy takes, where generated problems let them be read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Material, ModeChances
from sage_cli.analysis.means import share_gap, share_over_problems
from sage_cli.analysis.pictures import dots
from sage_cli.analysis.tables import long_table, records, tables_with_differences
from sage_cli.errors import DataError
from sage_cli.metrics.counts import FloatArray
from sage_cli.problems.generated.generator import Generated, Generator
from sage_cli.problems.registry import find, is_file_name
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record
from sage_cli.reports.table import Measure

EXACT, SAMPLED = "exact chance", "share of samples"
RIGHT_IF, AMONG_RIGHT = "right if taken", "share of right ones"
MEASURES = (EXACT, SAMPLED, RIGHT_IF, AMONG_RIGHT)
OTHER = "other"
"""What announces no mode."""


class ModesData(TypedDict):
    """Each mode's chances and shares, and the differences to the first policy."""

    modes: list[Record]
    differences: list[Record]


def modes(material: Material) -> Document:
    """For each mode its exact chance, its share of the samples, and how often it is right."""
    asked, first = material.asked, material.policies[0]
    found: dict[str, dict[str, dict[str, Measure]]] = {}
    gaps: dict[str, dict[str, dict[str, Measure]]] = {}
    panels: dict[str, dict[str, dict[str, Measure]]] = {}
    for benchmark, answers in material.answers.items():
        kind = generator_with_modes(benchmark)
        of = {
            one.policy: mode_shares(one, kind, material.modes[benchmark, one.policy])
            for one in answers
        }
        for mode in (*kind.modes, OTHER):
            for measure in MEASURES:
                name = f"{mode}: {measure}"
                values = {
                    policy: share_over_problems(shares[mode][measure], asked)
                    for policy, shares in of.items()
                }
                found.setdefault(benchmark, {})[name] = values
                panels.setdefault(measure, {})[f"{benchmark} {mode}"] = values
                gaps.setdefault(benchmark, {})[name] = {
                    policy: share_gap(shares[mode][measure], of[first][mode][measure], asked)
                    for policy, shares in of.items()
                    if policy != first
                }
    tables = tables_with_differences("modes of solving", "mode", found, gaps, first)
    return Document(
        name="modes",
        title="modes of solving",
        provenance=material.provenance,
        data=ModesData(
            modes=records("mode", found, "value"),
            differences=records("mode", gaps, "difference"),
        ),
        tables=tuple(tables),
        sheets={"modes": long_table("modes", "mode", found, "value")},
        figures=(dots("modes", panels, "mean over problems"),),
        notes=(
            f"{EXACT}: the probability of the words that announce the mode, from the model itself "
            "at the sampling temperature; it has no sampling error, its interval is over problems",
            f"{RIGHT_IF}: over the problems on which a sample takes the mode; {AMONG_RIGHT}: over "
            "those that have a right sample",
        ),
    )


def generator_with_modes(benchmark: str) -> type[Generator]:
    """The generator whose problems these are. Raises DataError where modes can't be read back."""
    entry = None if is_file_name(benchmark) else find(benchmark)
    if isinstance(entry, Generated) and entry.generator.modes:
        return entry.generator
    raise DataError(
        f"completions on {benchmark} don't announce how they solve the problem",
        "name generated problems whose demonstrations do, as arithmetic",
    )


def mode_shares(
    answers: Answers, kind: type[Generator], exact: ModeChances
) -> dict[str, dict[str, FloatArray]]:
    """Mode -> measure -> its value on each problem, NaN where it has none."""
    taken: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    for row in answers.rows():
        mode = kind.mode_of(row.completion.text) or OTHER
        taken[mode, row.problem.id] += 1
        right[mode, row.problem.id] += row.right
    ids = list(answers.problems)
    found = {}
    for mode in (*kind.modes, OTHER):
        taken_P = np.array([taken[mode, id_] for id_ in ids], float)
        right_P = np.array([right[mode, id_] for id_ in ids], float)
        found[mode] = {
            EXACT: np.array([_chance(exact[id_], mode) for id_ in ids]),
            SAMPLED: taken_P / answers.counts.n_P,
            RIGHT_IF: _ratio(right_P, taken_P),
            AMONG_RIGHT: _ratio(right_P, answers.counts.c_P.astype(float)),
        }
    return found


def _chance(by_mode: Mapping[str, float], mode: str) -> float:
    return max(0.0, 1 - sum(by_mode.values())) if mode == OTHER else by_mode[mode]


def _ratio(part_P: FloatArray, whole_P: FloatArray) -> FloatArray:
    return np.where(whole_P > 0, part_P / np.where(whole_P > 0, whole_P, 1), np.nan)


MODES = Analysis(
    "modes",
    "which ways of solving generated problems a policy takes: exact chances, and how often right",
    modes,
    ModesData,
    reader="announcements",
)
