"""`sage samples tokens`: what a guide does to completions of a run, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec, RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, load_benchmarks
from sage_cli.evaluation.measure import grade_rows
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.guides import Guide
from sage_cli.guides.guide import OptionalSignal
from sage_cli.guides.token_values import token_values
from sage_cli.methods.method import batch_of
from sage_cli.models.policies.names import named_policy, named_run
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import reference_of
from sage_cli.models.signals import completion_signals, tilted_temperature
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.reports.token_report import ReportedCompletion, TokenReport
from sage_cli.settings.sections.model import trained_dtype
from sage_cli.store.atomic import write_json
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples.completion import Completion, token_ids

Ids = tuple[list[int], list[int]]
"""Token ids of a prompt and of its completion."""


def token_report(
    config: SageConfig, name: str, progress: Progress, notes: Sequence[str] = ()
) -> TokenReport:
    """Return sample 0 of the first `evaluation.limit` problems under the configuration's guide.

    `name` is a run, RUN@step or a model folder. Stored completions are used if the policy has
    been measured under `sampling`; the others are sampled and stored. The problems are those of
    the first benchmark of `evaluation.benchmark`.
    """
    guide = config.guide.for_training(config.rl.steps)
    policy = named_policy(name, Runs(config.run.root), config.model)
    with progress.doing(f"reading {config.evaluation.benchmark}"):
        judge = config.grading.judge
        benchmark = load_benchmarks(config.evaluation, config.data, judge)[0]
    completions = _completions(policy, benchmark, config, progress)
    grading = grader_for(benchmark.name, config.grading, config.prompt)
    with progress.doing(f"grading {len(completions)} completions"), grading as grader:
        grades = grade_rows(completions, benchmark, grader)
    tokenizer = policy.tokenizer()
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    ids = [
        (
            tokenizer(template.render(problem.question), add_special_tokens=False)["input_ids"],
            token_ids(tokenizer, row, template.stop),
        )
        for problem, row in zip(benchmark.problems, completions, strict=True)
    ]
    with progress.doing(f"loading {policy.label}"):
        model = policy.model()
    signals = _signals(model, ids, config, progress)
    right = [grade.status == "right" for grade in grades]
    known: dict[OptionalSignal, Tensor | tuple[str, ...]] = {
        "right_B": torch.tensor(right),
        "problem_ids_B": tuple(problem.id for problem in benchmark.problems),
    }
    reference = None
    if guide.reads_reference:
        with progress.doing("loading the reference"):
            recipe = RlSpec.of(config)
            held = reference_of(policy, recipe, Runs(config.run.root))
            frozen = held.model(dtype=trained_dtype(config.model))
        reference = _signals(frozen, ids, config, progress)
        if guide.tilts:
            known["reference_tilted_logps_BT"] = _tilted(frozen, ids, right, guide, config)
    step, calls = last_step(policy, config), batch_of(config.rl, config.rl.processes).accumulation
    rows, summary = token_values(
        signals,
        guide,
        guide.now(step, 0, calls),
        reference,
        [completion for _, completion in ids],
        known,
    )
    reported = zip(benchmark.problems, completions, grades, ids, rows, strict=True)
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
                tokens=tuple(tokenizer.decode([token]) for token in completed),
                values=values,
                retokenized=len(completed) != row.tokens,
            )
            for problem, row, grade, (_, completed), values in reported
        ),
        summary=summary,
        notes=tuple(notes),
    )


def store_with_run(report: TokenReport, name: str, root: Path) -> None:
    """Store a report in the folder of the run called `name`.

    Raises ConfigurationError for a model that no run here made.
    """
    run = named_run(name, Runs(root))
    if run is None:
        raise ConfigurationError(
            f"--keep stores numbers with a run, and no run here made {name}",
            "leave out --keep; --json prints the same numbers",
        )
    write_json(run.guide, asdict(report))


def last_step(policy: Policy, config: SageConfig) -> int:
    """Return the optimiser step at which a policy's q was last computed, counted from 0.

    For a policy that no RL run trained, it is the last of the schedule's steps. q is computed in
    the first of the `rl.passes` passes over a batch.
    """
    steps = config.rl.steps
    if policy.run is not None and policy.run.manifest.get("kind") == "rl":
        records = policy.run.metrics.read()
        steps = policy.checkpoint or (int(records[-1]["step"]) if records else steps)
    return (steps - 1) // config.rl.passes * config.rl.passes


def _completions(
    policy: Policy, benchmark: Benchmark, config: SageConfig, progress: Progress
) -> list[Completion]:
    """Return sample 0 of each problem, from the policy's sample set or sampled into it."""
    samples = PolicySamples.of_evaluation(policy, EvaluationSpec.of(config), config.run.root)
    with PolicySampler(samples, config.sampling, progress) as sampler:
        stored = sampler.sample(config.evaluation.seed, benchmark.problems, 1)
    rows = {row.problem_id: row for row in stored.completions(benchmark.golds, 1)}
    return [rows[problem.id] for problem in benchmark.problems]


def _signals(
    model: Any, ids: Sequence[Ids], config: SageConfig, progress: Progress
) -> list[tuple[Tensor, Tensor]]:
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    progress.begin("read", len(ids), "completions")
    signals = []
    for prompt, completion in ids:
        signals.append(completion_signals(model, prompt, completion, config.rollout.temperature))
        progress.advance()
    progress.end()
    return signals


def _tilted(
    model: Any, ids: Sequence[Ids], right: Sequence[bool], guide: Guide, config: SageConfig
) -> Tensor:
    """Return the reference's log-probabilities, tilted by each row's exponent, padded."""
    rows = [
        completion_signals(
            model, *row, tilted_temperature(config.rollout.temperature, guide.exponents[one])
        )[0]
        for row, one in zip(ids, right, strict=True)
    ]
    return pad_sequence(rows, batch_first=True)
