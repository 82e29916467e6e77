"""Stored completions, of a measurement or of a training run, that somebody looks at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError, StoreError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import StoredAnswer, stored_answers
from sage_cli.models.policy import named_policy
from sage_cli.settings.rewards import part_names
from sage_cli.store.run import Run, Runs

STEPS_NAMED = 12
"""Steps that are listed one by one."""
SOME_KEPT = (
    "these are of the few that rollouts.jsonl keeps of some steps (tracking.rollouts, "
    "tracking.rollouts_every); --set tracking.rollouts=all keeps all of a later run"
)
KEPT = ("step", "problem", "prompt", "gold", "text", "grade", "rewards", "trained")
"""What is told of a completion that a training sampled. It was not trained on where dynamic
sampling replaced its group."""


def samples_show(
    config: SageConfig, name: str, problem: str | None, grade: str | None, limit: int
) -> list[StoredAnswer]:
    """Return at most `limit` stored completions of a policy, in order of problems and samples.

    `problem` is a prefix of an id. Raises StoreError if no such completion is stored.
    """
    measured, benchmarks = config.evaluation, Evaluation(config).benchmarks
    policy = named_policy(name, Runs(config.run.root), config.model)
    samples = PolicySamples.from_config(policy, config, config.run.root)
    asked = [(benchmark, id_) for benchmark in benchmarks for id_ in benchmark.golds]
    asked = [(benchmark, id_) for benchmark, id_ in asked if id_.startswith(problem or "")]
    if not asked:
        raise DataError(
            f"no problem of {measured.benchmark} has an id that begins with '{problem}'",
            "the CSV of `sage passk` and of suites lists them",
        )
    # problem after problem, so that the first come before all are read
    matching = (
        answer
        for benchmark, id_ in asked
        for answer in sorted(
            stored_answers(samples, benchmark, config, [id_], measured.samples),
            key=lambda stored: (stored.seed, stored.completion.index),
        )
        if grade in (None, answer.status)
    )
    answers = list(islice(matching, limit))
    if not answers:
        graded = f"{grade} " if grade else ""
        raise StoreError(
            f"no {graded}completion of {policy.label} on {measured.benchmark} is stored "
            "and graded under these settings",
            f"`sage passk {name}` samples and grades what is missing",
        )
    return answers


def training_show(
    run: Run, problem: str | None, grade: str | None, step: int | None, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` completions of a training, in the order in which it sampled them.

    Their `rewards` are the weighted parts by name, or None. Where only those of rollouts.jsonl are
    kept, `problem` and `trained` are None. Raises StoreError if none is kept.
    """
    rows = run.completions().read().to_pylist()
    if not rows:
        rows = [
            {
                "problem": None,
                "trained": None,
                "rewards": None,
                "text": row["completion"],
                **{name: row[name] for name in ("step", "prompt", "gold", "grade")},
            }
            for row in run.rollouts.read()
        ]
        if problem is not None and rows:
            raise StoreError(
                f"{run.id} kept some completions without the ids of their problems",
                "leave out --problem",
            )
    if not rows:
        raise StoreError(
            f"{run.id} did not store its training completions",
            "add --set tracking.rollouts=all to its command, with another --seed: then the run "
            "keeps all, and this one stays as it is",
        )
    wanted = (
        row
        for row in rows
        if (row["problem"] or "").startswith(problem or "")
        and grade in (None, row["grade"])
        and step in (None, row["step"])
    )
    names = part_names(run.read_config().get("rl", {}).get("rewards", ()))
    matching = [
        {name: row[name] for name in KEPT}
        | {"rewards": row["rewards"] and dict(zip(names, row["rewards"], strict=False))}
        for row in islice(wanted, limit)
    ]
    if not matching:
        raise StoreError(
            f"none of the {len(rows):,} completions of {run.id} matches these options; completions "
            f"are stored of {_in_words(sorted({row['step'] for row in rows}))}",
            "leave out --step, --grade or --problem",
        )
    return matching


def _in_words(steps: Sequence[int]) -> str:
    """Return `step 2`, `steps 1, 5, 10`, or of many the first, the last and their number."""
    if len(steps) > STEPS_NAMED:
        return f"{len(steps):,} steps from {steps[0]} to {steps[-1]}"
    return f"step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}"
