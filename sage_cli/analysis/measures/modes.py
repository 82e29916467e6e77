"""The ways of solving that a policy takes on generated problems whose completions announce them."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs
from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.policy_tables import PolicyMeans
from sage_cli.errors import DataError
from sage_cli.metrics.counts import FloatArray
from sage_cli.problems.generator import Generator
from sage_cli.problems.registry import generated
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_dot_plot
from sage_cli.reports.tables import Estimate

SAMPLED = "share of samples"
RIGHT_IF, AMONG_RIGHT = "right if taken", "share of right ones"
MEASURES = (SAMPLED, RIGHT_IF, AMONG_RIGHT)
OTHER = "other"
"""The mode of completions that announce none."""


def modes(inputs: Inputs) -> Document:
    """Return each mode's share of samples, and how often it is right."""
    means = PolicyMeans("mode", inputs.options)
    panels: dict[str, dict[str, dict[str, Estimate]]] = {}
    for benchmark, answers in inputs.answers.items():
        kind = generator_with_modes(benchmark)
        shares = {graded.policy: mode_shares(graded, kind) for graded in answers}
        for mode in (*kind.modes, OTHER):
            for measure in MEASURES:
                name = f"{mode}: {measure}"
                means.add(
                    benchmark,
                    name,
                    {policy: by_mode[mode][measure] for policy, by_mode in shares.items()},
                )
                panels.setdefault(measure, {})[f"{benchmark} {mode}"] = means.means[benchmark][name]
    return Document(
        name="modes",
        title="modes of solving",
        data={"modes": means.records("value"), "differences": means.difference_records()},
        tables=tuple(means.tables("modes of solving")),
        sheets={"modes": means.sheet("value")},
        figures=(Figure("modes", partial(draw_dot_plot, panels, "mean over problems")),),
        notes=(
            *(note for name in inputs.answers for note in legend(name, generator_with_modes(name))),
            f"{RIGHT_IF}: over the problems on which a sample takes the mode; {AMONG_RIGHT}: over "
            "those that have a right sample",
        ),
    )


def legend(benchmark: str, kind: type[Generator]) -> list[str]:
    """Return a note on what the modes do, in the generator's words; none if it has no words."""
    described = [
        f"{mode}: {words}" + (" (a guess)" if mode in kind.guesses else "")
        for mode, words in kind.mode_words.items()
    ]
    return (
        [f"modes of {benchmark}: {', '.join(described)}; {OTHER}: announces none"]
        if described
        else []
    )


def generator_with_modes(benchmark: str) -> type[Generator]:
    """Return the benchmark's generator. Raises DataError if its completions announce no modes."""
    entry = generated(benchmark)
    if entry is not None and entry.generator.modes:
        return entry.generator
    raise DataError(
        f"completions on {benchmark} don't announce how they solve the problem",
        "name generated problems whose demonstrations do, as arithmetic",
    )


def mode_shares(answers: Answers, kind: type[Generator]) -> dict[str, dict[str, FloatArray]]:
    """Return mode -> measure -> its value on each problem, NaN if undefined."""
    taken: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    for row in answers.rows():
        mode = kind.mode_of(row.completion.text) or OTHER
        taken[mode, row.problem.id] += 1
        right[mode, row.problem.id] += row.right
    ids = list(answers.problems)
    shares = {}
    for mode in (*kind.modes, OTHER):
        taken_P = np.array([taken[mode, id_] for id_ in ids], float)
        right_P = np.array([right[mode, id_] for id_ in ids], float)
        shares[mode] = {
            SAMPLED: taken_P / answers.counts.n_P,
            RIGHT_IF: _ratio(right_P, taken_P),
            AMONG_RIGHT: _ratio(right_P, answers.counts.c_P.astype(float)),
        }
    return shares


def _ratio(part_P: FloatArray, whole_P: FloatArray) -> FloatArray:
    return np.where(whole_P > 0, part_P / np.where(whole_P > 0, whole_P, 1), np.nan)


MODES = Analysis(
    "modes",
    "which ways of solving generated problems a policy takes, and how often they are right",
    modes,
)
