"""What training by RL needs beside its configuration, gathered in each process that trains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.grading import Grade
from sage_cli.models.load import attach_lora
from sage_cli.policies.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.build import build_sampler
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import SamplerSetup, SamplingParameters
from sage_cli.store.completion import Completion
from sage_cli.store.samples import SampleIdentity, SampleSet
from sage_cli.training.rl import train_rl

OnStep = Callable[[Mapping[str, Any]], None]


def train_policy(
    config: SageConfig,
    base: Policy,
    problems: Sequence[Problem],
    run_folder: Path,
    on_step: OnStep,
) -> None:
    """Train the policy that starts as `base` into `run_folder`, alone or as one of several."""
    tokenizer = base.tokenizer()
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    prompts = [(template.render(problem.question), problem) for problem in problems]
    model, reference = policy_and_reference(config, base)
    drawn = reference_samples(config, base, template) if config.anchor.kl == "forward" else None
    with grader_for(config, config.data.rl.name) as grader:

        def verdicts(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
            return grader.grade_many(list(zip(golds, completions, strict=True)))

        train_rl(
            config,
            model,
            reference,
            tokenizer,
            prompts,
            verdicts,
            run_folder,
            on_step,
            by_problem(drawn, problems, config) if drawn else None,
        )


def policy_and_reference(config: SageConfig, base: Policy) -> tuple[Any, Path | None]:
    """The trainable policy, and the folder of a reference that isn't inside the policy itself."""
    model = base.model(dtype=config.model.dtype, trainable=True)
    has_adapter = hasattr(model, "peft_config")
    if config.model.tuning == "full":
        return model, Path(base.path) if config.anchor.kl == "reverse" else None
    return (model if has_adapter else attach_lora(model, config.model.lora)), None


def draw_reference_samples(
    config: SageConfig, base: Policy, problems: Sequence[Problem], progress: Progress
) -> None:
    """Forward KL: draw what is lacking of the frozen reference's completions, once and for all."""
    template = PromptTemplate.from_section(config.prompt, base.tokenizer())
    samples, n = reference_samples(config, base, template), config.anchor.reference_samples
    inventory = samples.inventory()
    missing = sum(len(inventory.missing(problem.id, n)) for problem in problems)
    if not missing:
        return
    setup = SamplerSetup(base.path, _parameters(config, template), config.sampling, **base.loading)
    prompts = {problem.id: template.render(problem.question) for problem in problems}
    total = n * len(prompts)
    progress.begin(f"sample the reference {base.label}", total, "samples", total - missing)
    with build_sampler(setup) as sampler:
        fill(samples, prompts, n, sampler, lambda rows: progress.advance(len(rows)))
    progress.end()


def reference_samples(config: SageConfig, base: Policy, template: PromptTemplate) -> SampleSet:
    """The sample set of the reference's completions, drawn as training's rollouts are."""
    sampling = asdict(_parameters(config, template)) | {"seed": config.rl.seed}
    identity = SampleIdentity(base.fingerprint, template.hash, sampling)
    return SampleSet(config.run.root, identity)


def _parameters(config: SageConfig, template: PromptTemplate) -> SamplingParameters:
    rollout = config.rollout
    return SamplingParameters(
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        min_p=rollout.min_p,
        max_tokens=rollout.max_tokens,
        stop=template.stop,
    )


def by_problem(
    samples: SampleSet, problems: Sequence[Problem], config: SageConfig
) -> dict[str, list[Completion]]:
    """The stored completions of each problem, in the order of their indices."""
    found: defaultdict[str, list[Completion]] = defaultdict(list)
    wanted = [problem.id for problem in problems]
    for completion in samples.completions(wanted, config.anchor.reference_samples):
        found[completion.problem_id].append(completion)
    return {id_: sorted(rows, key=lambda row: row.index) for id_, rows in found.items()}
