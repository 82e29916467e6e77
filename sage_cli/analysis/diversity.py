"""The numbers of different answers and ways of solving in a policy's samples, per problem.

Where completions on generated problems announce their way, its share and how often it is correct.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, PolicyMeans, printed
from sage_cli.analysis.graded_samples import Answers, skeleton
from sage_cli.errors import DataError
from sage_cli.metrics.estimators import FloatArray, distinct_of, entropy_of_counts
from sage_cli.problems.problem import Generator
from sage_cli.problems.registry import generated
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.dots import draw_dot_plot
from sage_cli.reports.tables import Column, Row, Table, columns

RIGHT_SAMPLED = 8
"""Correct solutions whose skeletons are counted: among more there would be more skeletons."""
ANSWERS, ENTROPY = "different answers", "answer entropy (nats)"
SKELETONS = f"skeletons of {RIGHT_SAMPLED} right"
MEASURES = (ANSWERS, ENTROPY, SKELETONS)
_SAMPLED = "share of samples"
RIGHT_IF, AMONG_RIGHT = "right if taken", "share of right ones"
OF_MODES = (_SAMPLED, RIGHT_IF, AMONG_RIGHT)
OTHER = "other"
"""The mode of completions that announce none."""


@dataclass(frozen=True, eq=False)
class Variety:
    """Final answers of each problem's samples, and skeletons of the correct ones, counted."""

    answers: Mapping[str, Counter[str | None]]
    skeletons: Mapping[str, Counter[bytes]]

    def values(self, measure: str) -> FloatArray:
        """Return one of MEASURES for each problem; NaN with too few correct solutions."""
        if measure == SKELETONS:
            counters = self.skeletons.values()
            return np.array([distinct_of(list(c.values()), RIGHT_SAMPLED) for c in counters])
        counts = [list(answers.values()) for answers in self.answers.values()]
        if measure == ANSWERS:
            return np.array([len(numbers) for numbers in counts], float)
        return np.array([entropy_of_counts(numbers) for numbers in counts])


def variety(answers: Answers) -> Variety:
    """Count the answers of all samples (none counts as one) and the skeletons of correct ones."""
    counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in answers.problems}
    skeletons: dict[str, Counter[bytes]] = {id_: Counter() for id_ in answers.problems}
    for row in answers.rows():
        counted[row.problem.id][row.final_answer] += 1
        if row.right:
            bare = skeleton(row.completion.text).encode()
            skeletons[row.problem.id][hashlib.blake2b(bare, digest_size=8).digest()] += 1
    return Variety(counted, skeletons)


def diversity(inputs: Inputs) -> Document:
    """Return each measure per policy, the paired differences, and every problem's values."""
    means = PolicyMeans("measure", inputs.options, shares=False)
    rows: list[Row] = []
    compared = []
    for benchmark, answers in inputs.answers.items():
        counted = {graded.policy: variety(graded) for graded in answers}
        for measure in MEASURES:
            values = {policy: counts.values(measure) for policy, counts in counted.items()}
            shared_P = np.all(np.isfinite(np.stack(list(values.values()))), axis=0)
            means.add(benchmark, measure, {name: of_P[shared_P] for name, of_P in values.items()})
        compared.append(f"{int(shared_P.sum())} of {len(answers[0].problems)} on {benchmark}")
        rows += [row for graded in answers for row in _problem_rows(graded, counted[graded.policy])]
    heads = columns("benchmark, problem, policy, share right")
    sheet = Table("diversity problem by problem", (*heads, *map(Column, MEASURES)), tuple(rows))
    panels = {
        printed(measure): {benchmark: items[measure] for benchmark, items in means.means.items()}
        for measure in MEASURES
    }
    figure = Figure("diversity", partial(draw_dot_plot, panels, "mean over problems"))
    return Document(
        name="diversity",
        title="diversity of answers and solutions",
        data=means.per_problem(sheet),
        tables=means.tables("diversity, mean over problems"),
        sheets={"diversity": sheet},
        figures=(figure,),
        notes=(
            "answers: all correct answers count as one, wrong ones differ by their text, and "
            "completions without an answer are one more. The entropy is that of the shares of a "
            "problem's samples; n samples underestimate it by about (answers - 1) / 2n",
            f"skeletons: the number expected among {RIGHT_SAMPLED} correct solutions of a problem "
            "(Hurlbert 1971), on the problems where every policy has that many "
            f"({', '.join(compared)}); a skeleton is a solution without its words and numbers",
        ),
    )


def _problem_rows(answers: Answers, counted: Variety) -> list[Row]:
    values = [answers.right_shares, *(counted.values(measure) for measure in MEASURES)]
    return [
        Row((answers.benchmark.name, id_, answers.policy, *map(Estimate, map(float, numbers))))
        for id_, *numbers in zip(answers.problems, *values, strict=True)
    ]


DIVERSITY = Analysis(
    "diversity", "how many different answers and ways of solving there are, per problem", diversity
)


def modes(inputs: Inputs) -> Document:
    """Return each mode's share of samples, and how often it is correct."""
    means = PolicyMeans("mode", inputs.options)
    panels: dict[str, dict[str, dict[str, Estimate]]] = {}
    for benchmark, answers in inputs.answers.items():
        kind = generator_with_modes(benchmark)
        shares = {graded.policy: mode_shares(graded, kind) for graded in answers}
        for mode in (*kind.modes, OTHER):
            for measure in OF_MODES:
                name = f"{mode}: {measure}"
                means.add(
                    benchmark,
                    name,
                    {policy: by_mode[mode][measure] for policy, by_mode in shares.items()},
                )
                of_policies = means.means[benchmark][name]
                panels.setdefault(printed(measure), {})[f"{benchmark} {mode}"] = of_policies
    return Document(
        name="modes",
        title="modes of solving",
        data={"modes": means.records("value"), "differences": means.difference_records()},
        tables=tuple(means.tables("modes of solving")),
        sheets={"modes": means.sheet("value")},
        figures=(Figure("modes", partial(draw_dot_plot, panels, "mean over problems")),),
        notes=(
            *(note for name in inputs.answers for note in legend(name, generator_with_modes(name))),
            f"{printed(RIGHT_IF)}: the share of the mode's samples that are correct, over the "
            f"problems with a sample of the mode; {printed(AMONG_RIGHT)}: the mode's share of the "
            "correct samples, over the problems with a correct sample",
        ),
    )


def legend(benchmark: str, kind: type[Generator]) -> list[str]:
    """Return a note on what the modes do, in the generator's words; none if it has no words."""
    described = [
        f"{mode}: {words}" + (" (a guess)" if mode in kind.guesses else "")
        for mode, words in kind.mode_words.items()
    ]
    return (
        [f"modes of {benchmark}: {', '.join(described)}; {OTHER}: does not say its mode"]
        if described
        else []
    )


def generator_with_modes(benchmark: str) -> type[Generator]:
    """Return the benchmark's generator. Raises DataError if its completions announce no modes."""
    entry = generated(benchmark)
    if entry is not None and entry.generator.modes:
        return entry.generator
    raise DataError(
        f"completions on {benchmark} do not state which method of solution they use",
        "choose generated problems whose demonstrations do, for example arithmetic",
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
            _SAMPLED: taken_P / answers.counts.n_P,
            RIGHT_IF: _ratio(right_P, taken_P),
            AMONG_RIGHT: _ratio(right_P, answers.counts.c_P.astype(float)),
        }
    return shares


def _ratio(part_P: FloatArray, whole_P: FloatArray) -> FloatArray:
    return np.where(whole_P > 0, part_P / np.where(whole_P > 0, whole_P, 1), np.nan)


ANSWER_MODES = Analysis(
    "modes",
    "which ways of solving generated problems a policy takes, and how often they are correct",
    modes,
)
