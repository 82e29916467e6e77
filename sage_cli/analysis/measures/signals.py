"""Which tokens are surprising or uncertain, and which of them guides mark (the claim of 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis, Inputs, Options
from sage_cli.analysis.tables import mean_over_problems, share_gap, share_over_problems
from sage_cli.analysis.texts import CLASSES
from sage_cli.analysis.token_table import TokenTable, by_problem
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.agreement import by_chance, jaccard, kappa, rank_correlation
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dot_plot import draw_dot_plot
from sage_cli.reports.tables.table import Cell, Measure, Record, Row, Table, columns, to_records

HIGH = 0.8
"""A signal is high above this quantile of the policy's tokens: a fifth of them, as in 80/20."""
WORDS, LEAST = 15, 20
"""How many words are shown, each of at least so many tokens."""
UNSHAPED = 1e-6
"""|log q| up to which a token counts as unshaped."""

Marks = NDArray[np.bool_]
Panels = dict[str, dict[str, dict[str, Measure]]]


class SignalsData(TypedDict):
    """Signals by class and by word, the overlap of marks, and the guides with their settings."""

    classes: list[Record]
    words: list[Record]
    overlap: list[Record]
    guides: dict[str, str]
    temperature: float


def signals(inputs: Inputs) -> Document:
    """Return signals and marks of each class of tokens and of words, and the marks' overlap."""
    options = inputs.options
    guides = list(dict.fromkeys(name for one in inputs.tokens.values() for name in one.log_q_T))
    classes: list[Row] = []
    words: list[Row] = []
    overlaps: list[Row] = []
    panels: Panels = {}
    for (benchmark, policy), table in inputs.tokens.items():
        marks = marked(table)
        where = benchmark, policy
        for number, name in enumerate(CLASSES):
            cells = _cells(table, marks, table.class_T == number, options)
            if cells is not None:
                classes.append(Row((*where, name, *cells.values()), section=" ".join(where)))
                for title, measure in cells.items():
                    if title.startswith(("high ", "q ≠ 1")):
                        panel = panels.setdefault(f"{title} ({benchmark})", {})
                        panel.setdefault(name, {})[policy] = measure
        for word in uncertain_words(table):
            chosen_T = table.word_T == table.words.index(word)
            cells = _cells(table, marks, chosen_T, options) or {}
            shown: tuple[Cell, ...] = (*where, word, int(chosen_T.sum()), *list(cells.values())[1:])
            words.append(Row(shown, section=" ".join(where)))
        overlaps += [Row((*where, *cells)) for cells in _overlaps(table, marks, options)]
    measured = ", ".join(_measures(guides))
    by_class = Table(
        "signals by class of tokens",
        columns(f"benchmark, policy, class, share of tokens, {measured}"),
        tuple(classes),
    )
    by_word = Table(
        "words of the highest entropy",
        columns(f"benchmark, policy, word, tokens, {measured}"),
        tuple(words),
    )
    overlap = Table(
        "overlap of marked tokens",
        columns("benchmark, policy, one, other, Jaccard, by chance, kappa, rank correlation"),
        tuple(overlaps),
    )
    return Document(
        name="signals",
        title="tokens that signals and guides mark",
        data=SignalsData(
            classes=to_records(by_class),
            words=to_records(by_word),
            overlap=to_records(overlap),
            guides={guide.name: guide.describe() for guide in options.guides},
            temperature=options.temperature,
        ),
        tables=(by_class, by_word, overlap),
        sheets={"classes": by_class, "words": by_word, "overlap": overlap},
        figures=(Figure("signals", partial(draw_dot_plot, panels, "share of the class")),),
        notes=(
            f"surprisal and entropy are the policy's own, in nats, at the temperature of training "
            f"({options.temperature:g}); high is above the {HIGH:.0%} quantile of its tokens",
            "each number is a mean over problems that have such tokens, of a mean over the "
            "problem's tokens; intervals are over problems",
            "q is that of the first step, at the upper ends of schedules; a word's numbers are "
            "those of the token that begins it",
            "where marks are independent within a problem, kappa is 0 and Jaccard as by chance; "
            "rank correlation is that of log q, of surprisals or of entropies",
        ),
    )


def marked(table: TokenTable) -> dict[str, tuple[Marks, FloatArray]]:
    """Return name -> which tokens are marked, and the value that ranks them.

    Guides mark by q other than 1, signals by a value above the HIGH quantile.
    """
    marks = {
        f"high {name}": (
            value_T > np.quantile(value_T, HIGH) if len(value_T) else value_T > 0,
            value_T,
        )
        for name, value_T in (("surprisal", table.surprisal_T), ("entropy", table.entropy_T))
    }
    of_guides = {
        guide: (np.abs(log_q_T) > UNSHAPED, log_q_T) for guide, log_q_T in table.log_q_T.items()
    }
    return {**of_guides, **marks}


def uncertain_words(table: TokenTable) -> list[str]:
    """Return the words of the highest mean entropy among those of at least LEAST tokens."""
    known_T = table.word_T >= 0
    count_W = np.bincount(table.word_T[known_T], minlength=len(table.words))
    sum_W = np.bincount(table.word_T[known_T], table.entropy_T[known_T], len(table.words))
    frequent = [word for word in range(len(table.words)) if count_W[word] >= LEAST]
    frequent.sort(key=lambda word: (-sum_W[word] / count_W[word], table.words[word]))
    return [table.words[word] for word in frequent[:WORDS]]


def _measures(guides: list[str]) -> list[str]:
    """Return the names of the columns that `_cells` fills behind the share of tokens."""
    own = [name for guide in guides for name in (f"q ≠ 1: {guide}", f"log q: {guide}")]
    return ["surprisal", "entropy", "high surprisal", "high entropy", *own]


def _cells(
    table: TokenTable,
    marks: Mapping[str, tuple[Marks, FloatArray]],
    chosen_T: Marks,
    options: Options,
) -> dict[str, Measure] | None:
    """Return the chosen tokens' measures by name; None without a token."""
    if not chosen_T.any():
        return None
    share, mean = (partial(of, options=options) for of in (share_over_problems, mean_over_problems))
    cells = {
        "share": share(means_by_problem(table, chosen_T.astype(float), np.ones_like(chosen_T)))
    }
    named: list[tuple[str, FloatArray, Callable[..., Measure]]] = [
        ("surprisal", table.surprisal_T, mean),
        ("entropy", table.entropy_T, mean),
    ]
    named += [
        (name, marks[name][0].astype(float), share) for name in marks if name not in table.log_q_T
    ]
    for guide, log_q_T in table.log_q_T.items():
        named.append((f"q ≠ 1: {guide}", marks[guide][0].astype(float), share))
        named.append((f"log q: {guide}", log_q_T, mean))
    return cells | {
        name: of(means_by_problem(table, value_T, chosen_T)) for name, value_T, of in named
    }


def means_by_problem(table: TokenTable, value_T: FloatArray, chosen_T: Marks) -> FloatArray:
    """Return the mean of the chosen tokens' values, problem by problem; NaN for no token."""
    own_T = table.problem_T[chosen_T]
    count_P = np.bincount(own_T, minlength=table.problems)
    sum_P = np.bincount(own_T, value_T[chosen_T], table.problems)
    return np.where(count_P > 0, sum_P / np.maximum(count_P, 1), np.nan)


def _overlaps(
    table: TokenTable, marks: Mapping[str, tuple[Marks, FloatArray]], options: Options
) -> list[list[Cell]]:
    """Return a row of cells for each two sets of marks."""
    rows: list[list[Cell]] = []
    own, none_P = by_problem(table), np.zeros(table.problems)
    for one, other in combinations(marks, 2):
        (one_T, rank_T), (other_T, other_rank_T) = marks[one], marks[other]
        pairs = [(one_T[own_T], other_T[own_T]) for own_T in own]
        ranks = [rank_correlation(rank_T[own_T], other_rank_T[own_T]) for own_T in own]
        rows.append(
            [
                one,
                other,
                share_over_problems([jaccard(*pair) for pair in pairs], options),
                share_over_problems([by_chance(*pair) for pair in pairs], options),
                share_gap([kappa(*pair) for pair in pairs], none_P, options),
                share_gap(ranks, none_P, options),
            ]
        )
    return rows


SIGNALS = Analysis(
    "signals",
    "which tokens are surprising or uncertain, and which of them guides mark",
    signals,
    SignalsData,
    scorer="tokens",
    options=frozenset({"guides"}),
)
