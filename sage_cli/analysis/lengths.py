"""How long completions are by verdict, and how many are cut off."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Asked, Material
from sage_cli.analysis.means import mean_over_problems, share_over_problems
from sage_cli.analysis.pictures import dots
from sage_cli.grading.grades import STATUSES
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record, to_records
from sage_cli.reports.table import Column, Measure, Row, Table

ALL = "all"
COLUMNS = tuple(
    map(Column, ("benchmark", "policy", "verdict", "completions", "mean tokens", "median",
                 "95th percentile", "longest", "cut off"))
)  # fmt: skip


class LengthsData(TypedDict):
    """A row for each policy, benchmark and verdict."""

    lengths: list[Record]


def lengths(material: Material) -> Document:
    """Tokens by verdict: mean with its interval over problems, quantiles, share cut off."""
    rows: list[Row] = []
    means: dict[str, dict[str, dict[str, Measure]]] = {}
    for benchmark, answers in material.answers.items():
        by_verdict = means.setdefault(benchmark, {})
        for one in answers:
            for row in length_rows(one, material.asked):
                rows.append(row)
                verdict, mean = str(row.cells[2]), row.cells[4]
                if isinstance(mean, Measure):
                    by_verdict.setdefault(verdict, {})[one.policy] = mean
    table = Table("tokens by verdict", COLUMNS, tuple(rows))
    return Document(
        name="lengths",
        title="lengths of completions",
        provenance=material.provenance,
        data=LengthsData(lengths=to_records(table)),
        tables=(table,),
        sheets={"lengths": table},
        figures=(dots("lengths", means, "mean tokens"),),
        notes=(
            "mean tokens and cut off are means over the problems that have such a completion, with "
            "intervals over problems; quantiles are over completions",
            "cut off: stopped by the limit of tokens, whatever the verdict",
        ),
    )


def length_rows(answers: Answers, asked: Asked) -> list[Row]:
    """A row for all completions and one for each verdict that occurs."""
    tokens: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    cut: Counter[tuple[str, str]] = Counter()
    for _, completion, grade in answers.rows():
        for verdict in (ALL, grade.status):
            tokens[verdict, completion.problem_id][completion.tokens] += 1
            cut[verdict, completion.problem_id] += completion.finish_reason == "length"
    rows = []
    for verdict in (ALL, *STATUSES):
        of_problem = {id_: tokens[verdict, id_] for id_ in answers.problems
                      if (verdict, id_) in tokens}  # fmt: skip
        if not of_problem:
            continue
        every = sum(of_problem.values(), Counter[int]())
        counts = {id_: counter.total() for id_, counter in of_problem.items()}
        mean = mean_over_problems(
            [sum(t * c for t, c in of_problem[id_].items()) / n for id_, n in counts.items()], asked
        )
        share = share_over_problems([cut[verdict, id_] / n for id_, n in counts.items()], asked)
        cells = (verdict, every.total(), Measure(mean.value, interval=mean.interval, digits=1),
                 _quantile(every, 0.5), _quantile(every, 0.95), max(every), share)  # fmt: skip
        section = f"{answers.benchmark.name} {answers.policy}"
        rows.append(Row((answers.benchmark.name, answers.policy, *cells), section))
    return rows


def _quantile(lengths: Counter[int], share: float) -> int:
    """The smallest length that at least this share of the completions doesn't exceed."""
    ordered = sorted(lengths)
    upto = np.cumsum([lengths[length] for length in ordered])
    return ordered[int(np.searchsorted(upto, share * upto[-1] - 1e-9))]


LENGTHS = Analysis(
    "lengths", "tokens by verdict, and the share that is cut off", lengths, LengthsData
)
