"""Completions of the reference or the initial policy, sampled once as rollouts are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sage_cli.config.specs import RlSpec
from sage_cli.errors import DataError
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.training_pool import training_problems
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import reference_policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.store.samples.completion import Completion
from sage_cli.training.rl_inputs import RlJob
from sage_cli.training.rollouts.order import rows_seen


def reference_samples(spec: RlSpec, start: Policy, root: Path) -> PolicySamples:
    """The completions that a training from `start` takes beforehand, sampled or not.

    Forward KL's are of the model that `anchor.reference` means, a method's own of `start`; their
    seed is `rl.seed`.
    """
    sampled = reference_policy(start, spec) if spec.anchor.kl == "forward" else start
    return PolicySamples.of_rollouts(sampled, spec, root)


def samples_beforehand(spec: RlSpec) -> int:
    """How many completions of each problem are sampled before the training; 0 where none are."""
    forward = spec.anchor.kl == "forward"
    return spec.anchor.reference_samples if forward else spec.rl.samples_beforehand


def problems_held(problems: Sequence[Problem], spec: RlSpec) -> list[Problem]:
    """The problems that the training comes to, whose completions are sampled beforehand."""
    return [problems[row] for row in rows_seen(len(problems), spec.rl, spec.data.rl.order)]


def sample_reference(job: RlJob, progress: Progress) -> None:
    """Sample what a training takes beforehand and isn't stored, if it takes any."""
    if count := samples_beforehand(job.spec):
        samples = reference_samples(job.spec, job.start, job.record.root)
        with PolicySampler(samples, job.sampling, progress) as sampler:
            sampler.sample(job.spec.rl.seed, problems_held(job.problems, job.spec), count)


def reference_facts(spec: RlSpec, start: Policy, root: Path) -> dict[str, str]:
    """The completions that a training from `start` samples of its reference beforehand.

    Nothing where it samples none, or where the problems aren't on this machine.
    """
    n = samples_beforehand(spec)
    if not n:
        return {}
    try:
        problems = problems_held(training_problems(spec, root), spec)
    except DataError:
        return {}
    wanted = missing = n * len(problems)
    samples = reference_samples(spec, start, root) if start.exists else None
    if samples is not None and samples.policy.exists:
        stored = samples.at(spec.rl.seed, read_only=True)
        missing = stored.inventory().count_missing([problem.id for problem in problems], n)
    said = f"{missing:,} of {wanted:,} to sample, {n} of each of {len(problems):,} problems"
    return {"reference samples": said}


def reference_completions(job: RlJob) -> dict[str, list[Completion]] | None:
    """The stored completions of each problem, in the order of their indices; None without any."""
    if not (count := samples_beforehand(job.spec)):
        return None
    found: defaultdict[str, list[Completion]] = defaultdict(list)
    wanted = [problem.id for problem in problems_held(job.problems, job.spec)]
    stored = reference_samples(job.spec, job.start, job.record.root).at(job.spec.rl.seed)
    for completion in stored.completions(wanted, count):
        found[completion.problem_id].append(completion)
    return {id_: sorted(rows, key=lambda row: row.index) for id_, rows in found.items()}
