"""Lengths of completions by grade, and the share that is truncated."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

import numpy as np

from sage_cli.analysis.analysis import (
    Analysis,
    Inputs,
    Options,
    mean_over_problems,
    printed,
    printed_table,
    share_over_problems,
)
from sage_cli.analysis.graded_samples import Answers
from sage_cli.errors import DataError
from sage_cli.grading.grades import STATUSES
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.dots import draw_dot_plot
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns

ALL = "all"
_COLUMNS = columns(
    "benchmark, policy, grade, completions#, mean tokens, median, 95th percentile, longest, "
    "truncated"
)


def lengths(inputs: Inputs) -> Document:
    """Return tokens by grade: mean with its interval over problems, quantiles, truncated share.

    Raises DataError for imported samples without token counts.
    """
    for answers in inputs.each():
        if not sum(
            store.tally(list(answers.problems), answers.n).tokens for store in answers.grades
        ):
            raise DataError(
                f"the imported samples of {answers.policy} have no token counts",
                "choose other runs, or another analysis (`sage analyze` lists them)",
            )
    rows = [row for answers in inputs.each() for row in length_rows(answers, inputs.options)]
    means: dict[str, dict[str, dict[str, Estimate]]] = {name: {} for name in inputs.answers}
    for row in rows:
        benchmark, policy, grade = map(str, row.cells[:3])
        if isinstance(mean := row.cells[4], Estimate):
            means[benchmark].setdefault(printed(grade), {})[policy] = mean
    table = Table("tokens by grade", _COLUMNS, tuple(rows))
    return Document(
        name="lengths",
        title="lengths of completions",
        data={"lengths": to_records(table)},
        tables=(printed_table(table),),
        sheets={"lengths": table},
        figures=(Figure("lengths", partial(draw_dot_plot, means, "mean tokens")),),
        notes=(
            "mean tokens and truncated are means over the problems that have such a completion, "
            "with intervals over problems; quantiles are over completions",
            "truncated: stopped by the limit of tokens, whatever the grade",
        ),
    )


def length_rows(answers: Answers, options: Options) -> list[Row]:
    """Return a row for all completions and one for each grade that occurs."""
    tokens: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    truncated: Counter[tuple[str, str]] = Counter()
    for _, completion, grade in answers.rows():
        for status in (ALL, grade.status):
            tokens[status, completion.problem_id][completion.tokens] += 1
            truncated[status, completion.problem_id] += completion.finish_reason == "length"
    rows = []
    for status in (ALL, *STATUSES):
        ids = [id_ for id_ in answers.problems if (status, id_) in tokens]
        if not ids:
            continue
        counters = [tokens[status, id_] for id_ in ids]
        n_P = np.array([counter.total() for counter in counters])
        sum_P = np.array([sum(length * n for length, n in counter.items()) for counter in counters])
        truncated_P = np.array([truncated[status, id_] for id_ in ids])
        pooled = sum(counters, Counter[int]())
        mean = replace(mean_over_problems(sum_P / n_P, options), digits=1)
        quantiles = (_quantile(pooled, 0.5), _quantile(pooled, 0.95), max(pooled))
        share = share_over_problems(truncated_P / n_P, options)
        name = (answers.benchmark.name, answers.policy)
        cells = (*name, status, pooled.total(), mean, *quantiles, share)
        rows.append(Row(cells, section=" ".join(name)))
    return rows


def _quantile(lengths: Counter[int], share: float) -> int:
    """Return the smallest length that at least this share of the completions do not exceed."""
    ordered = sorted(lengths)
    upto = np.cumsum([lengths[length] for length in ordered])
    return ordered[int(np.searchsorted(upto, share * upto[-1] - 1e-9))]


LENGTHS = Analysis("lengths", "tokens by grade, and the share that is truncated", lengths)
