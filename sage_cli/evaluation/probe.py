"""A probe for a benchmark that a model has seen: it continues the beginnings of its questions."""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np

from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import provenance_of
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import measure
from sage_cli.evaluation.stored_grades import stored_answers
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, gaffke
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.progress import Progress
from sage_cli.reports.document import Document, Report, report_folder
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns
from sage_cli.store.file_names import portable
from sage_cli.store.json_files import read_object

FIXED = {
    "prompt.format": "plain",
    "prompt.user": "'{question}'",
    "prompt.chat_template_kwargs": "{}",
    "sampling.temperature": "0",
    "sampling.server_form": "completions",
    "evaluation.samples": "1",
    "evaluation.seeds": "1",
    "evaluation.allow_template_mismatch": "true",
    "grading.mode": "math-verify",
    "grading.extract": "text",
}
"""Settings as typed: the beginning itself is continued, and an answer may stand anywhere."""
HEADS = columns("benchmark, questions#, n#, word for word, right unasked=gold without being asked")
_NOTES = (
    "the model continues the first 60% of a question greedily, without a template; word for word: "
    "it writes the rest of the question; gold without being asked: Math-Verify finds the gold in "
    "what it writes, also with fresh numbers",
    "if fresh numbers do not lower the share, the model has not memorised the questions; they need "
    "questions with numbers in both parts",
)


def cut(question: str) -> tuple[str, str]:
    """Return the first 60% of a question's characters, up to the end of a word, and its rest.

    It is cut within a word where that would leave less than 30%.
    """
    text = question.strip()
    length = round(0.6 * len(text))
    blank = text.rfind(" ", length // 2, length + 1)
    begin = text[: length if blank < 0 else blank].rstrip()
    return begin, text[len(begin) :]


def with_fresh_numbers(problem: Problem) -> Problem:
    """Return the problem with each digit from 1 to 9 exchanged for another, always the same one.

    A number that returns is exchanged alike; 0 stays, so that no number begins with a fresh one.
    """
    order = "".join(random.Random(problem.question).sample("123456789", 9))
    fresh = str.maketrans(order, order[1:] + order[:1])
    return replace(problem, question=problem.question.translate(fresh))


def continues(text: str, rest: str | None) -> bool:
    """Return True if a text begins with the rest of a question, word for word.

    Blanks count as one, and case matters; the last word must not go on.
    """
    words = r"\s+".join(map(re.escape, (rest or "").split()))
    return bool(words and re.match(rf"\s*{words}(?:(?<!\w)|(?!\w))", text))


def probe(policy: Policy, benchmark: Benchmark, config: SageConfig, progress: Progress) -> Report:
    """Continue a benchmark's questions under `FIXED`, judge that, and write the report."""
    printed = benchmark.problems
    numbered = [all(re.search("[1-9]", part) for part in cut(p.question)) for p in printed]
    fresh = [*map(with_fresh_numbers, compress(printed, numbered))]
    asked = {"as printed": printed, "with fresh numbers": fresh}
    # a token has a byte at least, so no continuation is truncated before the question's end
    most = max(len(problem.question.encode()) for problem in printed)
    config = changed(config, {"sampling.max_tokens": max(config.sampling.max_tokens, most)})
    samples = PolicySamples.from_config(policy, config, config.run.root)
    begun = [replace(benchmark, name=t, problems=tuple(map(_begun, p))) for t, p in asked.items()]
    measure([samples], begun, config, progress)
    by_text_PC = {}
    for part in begun:
        judged = {
            row.problem.id: (
                continues(row.completion.text, row.problem.working),
                row.status == "right",
            )
            for row in stored_answers(samples, part, config, list(part.golds), 1)
        }
        judged_PC = np.array([judged[problem.id] for problem in part.problems], float)
        by_text_PC[part.name] = judged_PC.reshape(-1, 2)
    both_PC, fresh_PC = by_text_PC.values()
    by_text_PC["difference on the same questions"] = both_PC[numbered] - fresh_PC
    rows = []
    for text, of_PC in by_text_PC.items():
        if len(of_PC):
            cells = [_mean(value_P, config, signed=text not in asked) for value_P in of_PC.T]
            rows.append(Row((benchmark.name, text, len(of_PC), *cells)))
    notes = (*_NOTES, f"left out of the fresh numbers: {numbered.count(False)}, of {len(printed)}")
    table = Table(f"Has {policy.label} seen it?", HEADS, tuple(rows), notes)
    data = {
        "model": policy.fingerprint,
        "rows": to_records(table),
        "reproduced": [problem.id for problem in compress(printed, both_PC[:, 0])],
        "cells": [[str(cell) for cell in row.cells] for row in rows],
    }
    provenance = provenance_of([samples], [benchmark], config)
    # two files of one name differ by their content; what is generated is told by its name
    names = dict.fromkeys((benchmark.name, benchmark.content, str(len(printed))))
    folder = portable("-".join(("probe", *names, policy.fingerprint[:8])))
    document = Document("probe", table.title, data, provenance, (table,))
    return document.write(report_folder(config.run.root, folder))


def _begun(problem: Problem) -> Problem:
    """Return a problem whose question is this one's beginning, and whose working is its rest."""
    begin, rest = cut(problem.question)
    id_ = problem_id(begin, rest, problem.gold)
    return replace(problem, id=id_, question=begin, working=rest)


def _mean(value_P: FloatArray, config: SageConfig, *, signed: bool) -> Estimate:
    """Return the mean over problems: a share, or a difference of shares if `signed`."""
    resampling = Resampling(config.evaluation.confidence, config.evaluation.bootstrap)
    ends = gaffke(value_P[:, None], (-1 if signed else 0, 1), resampling)
    interval = float(ends.low_K[0]), float(ends.high_K[0])
    return Estimate(float(value_P.mean()), interval=interval, signed=signed)


def stored_probes(root: Path, policies: Collection[Policy]) -> Document | None:
    """Return what is stored of these policies' probes; None without any."""
    paths = sorted(root.glob("reports/probe-*/probe.json"))
    probes = [read_object(path, "remove it, and probe again") for path in paths]
    if probes:  # only then: a fingerprint reads a model's weights, which may have been removed
        here = [policy for policy in policies if policy.is_here and Path(policy.path).is_dir()]
        models = {policy.fingerprint for policy in here}
        probes = [probe for probe in probes if probe["model"] in models]
    rows = tuple(Row(tuple(cells)) for probe in probes for cells in probe["cells"])
    table = Table("Has the initial policy seen the benchmark?", HEADS, rows, _NOTES)
    data = {"probes": [row for probe in probes for row in probe["rows"]]}
    return Document("probe", table.title, data, tables=(table,)) if probes else None
