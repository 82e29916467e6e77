"""What a guide does to a policy's completions, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sage_cli.analysis.scoring import Forward
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import grade_rows
from sage_cli.guides.guide import Guide, Known, Signal
from sage_cli.guides.token_values import token_values
from sage_cli.methods.loop import batch_of
from sage_cli.models.policy import Policy, named_policy
from sage_cli.models.reference import reference_of
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.reports.token_report import ReportedCompletion, TokenReport
from sage_cli.store.completion import Completion
from sage_cli.store.run import Runs

if TYPE_CHECKING:
    from torch import Tensor


def token_report(
    config: SageConfig, name: str, progress: Progress, notes: Sequence[str] = ()
) -> TokenReport:
    """Return sample 0 of the first `evaluation.limit` problems under the configuration's guide.

    `name` is a run, RUN@step or a model folder. Stored completions are used if the policy has
    been measured under `sampling`; the others are sampled and stored. The problems are those of
    the first benchmark of `evaluation.benchmark`.
    """
    import torch

    guide, temperature = config.guide.for_training(config.rl.steps), config.rollout.temperature
    runs = Runs(config.run.root)
    policy = named_policy(name, runs, config.model)
    with progress.doing(f"reading {config.evaluation.benchmark}"):
        judge = config.grading.judge
        benchmark = load_benchmarks(config.evaluation, config.data, judge)[0]
    samples = PolicySamples.from_config(policy, config, runs.root)
    with PolicySampler(samples, config.sampling, progress) as sampler:
        stored = sampler.sample(config.evaluation.seed, benchmark.problems, 1)
    row_by_problem = {row.problem_id: row for row in stored.completions(benchmark.golds, 1)}
    completions = [row_by_problem[problem.id] for problem in benchmark.problems]
    forward = Forward(samples, temperature, progress)
    grading = benchmark.grader(config.grading, config.prompt)
    with progress.doing(f"grading {len(completions)} completions"), grading as grader:
        grades = grade_rows(completions, benchmark, grader, forward.template.opened)
    problems = {problem.id: problem for problem in benchmark.problems}
    right = [grade.status == "right" for grade in grades]
    read, of_policy = _read(forward, completions, problems, right, guide, "policy")
    known: Known = {"right_B": torch.tensor(right), "problem_ids_B": tuple(problems), **of_policy}
    reference = None
    if guide.reads_reference:
        same = [replace(row, token_ids=ids) for row, ids, *_ in read]
        frozen = replace(samples, policy=reference_of(policy, config, runs))
        of_same, of_reference = _read(
            Forward(frozen, temperature, progress), same, problems, right, guide, "reference"
        )
        reference = [(logps_T, entropy_T) for *_, logps_T, entropy_T in of_same]
        known = {**known, **of_reference}
    step, calls = last_step(policy, config), batch_of(config.rl, config.rl.processes).accumulation
    rows, summary = token_values(
        [(logps_T, entropy_T) for _, _, logps_T, entropy_T in read],
        guide,
        guide.now(step, 0, calls),
        reference,
        [list(ids) for _, ids, *_ in read],
        known,
    )
    reported = zip(benchmark.problems, read, grades, rows, strict=True)
    return TokenReport(
        policy=policy.label,
        guide=guide.describe(),
        step=step,
        q_min=guide.q_min,
        q_max=guide.q_max,
        tau=getattr(guide, "tau", None) if guide.name == "branch" else None,
        completions=tuple(
            ReportedCompletion(
                problem_id=problem.id,
                question=problem.question,
                gold=problem.gold,
                status=grade.status,
                extracted=grade.extracted,
                tokens=tuple(map(forward.text, ids)),
                values=values,
                retokenized=len(ids) != row.tokens,
            )
            for problem, (row, ids, *_), grade, values in reported
        ),
        summary=summary,
        notes=tuple(notes),
    )


def _read(
    forward: Forward,
    rows: Sequence[Completion],
    problems: Mapping[str, Problem],
    right: Sequence[bool],
    guide: Guide,
    of: Signal,
) -> tuple[list[tuple[Any, ...]], dict[str, Tensor]]:
    """Return what `Forward.tokens` says of each row, and the signals that the guide measures."""
    from torch.nn.utils.rnn import pad_sequence

    by_grade = {
        grade: iter(
            forward.tokens(
                [row for row, is_right in zip(rows, right, strict=True) if is_right is grade],
                problems,
                list(guide.measured_of_row(of, right=grade).values()),
            )
        )
        for grade in set(right)
    }
    read = [next(by_grade[is_right]) for is_right in right]
    names = list(guide.measured_of_row(of, right=True))
    measured = {
        name: pad_sequence([row[4 + place] for row in read], batch_first=True)
        for place, name in enumerate(names)
    }
    return [row[:4] for row in read], measured


def last_step(policy: Policy, config: SageConfig) -> int:
    """Return the optimiser step at which a policy's q was last computed, counted from 0.

    For a policy that no RL run trained, it is the last of the schedule's steps. q is computed in
    the first of the `rl.passes` passes over a batch.
    """
    steps = config.rl.steps
    if policy.run is not None and policy.run.read_manifest().get("kind") == "rl":
        records = policy.run.metrics.read()
        steps = policy.checkpoint or (int(records[-1]["step"]) if records else steps)
    return (steps - 1) // config.rl.passes * config.rl.passes
