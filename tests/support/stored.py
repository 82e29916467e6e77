"""Stored samples: sets of made-up completions, and a policy's answers for analyses."""

import secrets
from typing import NamedTuple

from sage_cli.analysis.analysis import Inputs, Options
from sage_cli.analysis.graded_samples import Answers
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.problems.problem import Problem
from sage_cli.store.annotations import Annotations, GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.sample_parts import write_part
from sage_cli.store.sample_set import SampleIdentity, SampleSet

IDENTITY = SampleIdentity("m" * 16, "t" * 12, {"temperature": 1.0}, 0)


def completion(problem="p", index=0, text="1+1=2"):
    return Completion(problem, index, 0, text, len(text), "stop")


def put(samples, *rows, number=None):
    """Store rows as one part of a writer of its own."""
    if number is None:
        number = len(list(samples.folder.glob("part-*")))
    return write_part(samples.folder, secrets.token_hex(4), number, rows, {"engine": "test"})


def damage(part):
    part.write_bytes(part.read_bytes()[:-1])


class Sample(NamedTuple):
    """What one completion is: text, grade, answer; tokens, reason to stop; what a model says."""

    text: str = ""
    status: str = "right"
    extracted: str | None = None
    tokens: int = 5
    reason: str = "stop"
    surprisal: float = 0.0
    entropy: float = 0.0


def answered(root, policy, samples, meta=None, benchmark="arithmetic", *, parts=1, seed=0):
    """Samples by problem, stored in so many parts, judged and read."""
    problems = tuple(
        Problem(id_, benchmark, f"{id_}?", "1", (meta or {}).get(id_, {})) for id_ in samples
    )
    stored = SampleSet(root, SampleIdentity(policy, "t" * 12, {"temperature": 1.0}, seed))
    rows = [
        (Completion(id_, index, seed, one.text, one.tokens, one.reason), one)
        for id_, of in samples.items()
        for index, one in enumerate(of)
    ]
    by_key = {(row.problem_id, row.index): one for row, one in rows}
    for part in range(parts):
        put(stored, *(row for row, _ in rows[part::parts]))
    grades, readings = (
        GradeStore(stored, {"by": "hand"}),
        Annotations(stored, {"by": "hand"}, "scores"),
    )
    for row in stored.completions():
        one = by_key[row.problem_id, row.index]
        grades.add([(row, one.status, one.extracted)])
        readings.add([(row, one.surprisal, one.entropy, one.tokens)])
    grades.flush()
    readings.flush()
    n = max(len(of) for of in samples.values())
    return Answers(policy, Benchmark(benchmark, problems, "math", None), n, (grades,), (readings,))


def inputs(*answers, **options):
    """Policies' answers on one benchmark."""
    return Inputs(
        answers={answers[0].benchmark.name: answers}, options=Options(resamples=200, **options)
    )
