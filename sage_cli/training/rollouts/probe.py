"""A handful of rollouts, with their log-probabilities by the engine and by the trainer.

They come from a training of one step in a folder of its own. All of its rewards are equal, so the
policy stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sage_cli.config.specs import RlSpec
from sage_cli.guides import NoGuide
from sage_cli.methods.grpo import Grpo
from sage_cli.metrics.counts import FloatArray
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import policy_and_reference
from sage_cli.models.signals import batches, completion_logits
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.decoder.token_choice import token_logps
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.sections.anchor import AnchorSection
from sage_cli.settings.sections.data import TrainingSourceSection
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.runs.run import Run
from sage_cli.training.rl import build_trainer
from sage_cli.training.rl_arguments import engine_stop
from sage_cli.training.rl_inputs import RlInputs
from sage_cli.training.rollouts.engine import settled_engine
from sage_cli.training.rollouts.policy_rollouts import sampled_rollouts
from sage_cli.training.rollouts.vllm import as_launched, engine_as_asked
from sage_cli.training.trainer.reference import arithmetic

PROMPTS, ROLLOUTS = 4, 4
"""Prompts that are sampled from, and completions of each."""


class Ungraded(NamedTuple):
    """The grade of a completion that nobody judges."""

    status: str = "unparseable"
    reward: float = 0.0


@dataclass(frozen=True, eq=False)
class Probe:
    """Log-probabilities of sampled tokens T, in nats, and how their completions ended.

    `trainer_T` are those of the loss. `engine_T` are the engine's own if it `reports` them, else
    computed as it samples. `whole_T` are of one plain pass at the rollouts' temperature over the
    whole vocabulary, `untempered_T` the same at temperature 1, `kept_T` over what truncation keeps.
    """

    backend: str
    reports: bool
    products: torch.dtype
    ends: Counter[str]
    trainer_T: FloatArray
    engine_T: FloatArray
    whole_T: FloatArray
    untempered_T: FloatArray
    kept_T: FloatArray
    prompts: Sequence[Sequence[int]]


def probe(spec: RlSpec, start: Policy, problems: Sequence[Problem], folder: Path) -> Probe:
    """Sample completions of some `problems` with the configured engine, and read them both ways.

    Raises SageError where the engine can't sample here.
    """
    spec = _one_step(spec)
    tokenizer = start.tokenizer()
    template = PromptTemplate.from_section(spec.prompt, tokenizer)
    inputs = RlInputs(
        model=policy_and_reference(spec, start)[0],
        reference=None,
        tokenizer=tokenizer,
        prompts=[(template.render(one.question), one) for one in problems[:PROMPTS]],
        grader=lambda golds, _: [Ungraded()] * len(golds),
        sample=sampled_rollouts(spec.rollout, spec.rl.seed, tokenizer),
    )
    run = Run(folder)
    tracking = TrackingSection(rollouts="all", wandb="off")
    with as_launched(), engine_as_asked(spec.rl.seed, 0, spec.rollout.logprobs_mode):
        trainer = build_trainer(spec, inputs, tracking, run, lambda _: None)
        trainer.args.save_strategy = "no"
        trainer.train()
    trainer.noted.seal()
    rows = run.completions().read().to_pylist()
    prompts = [tokenizer(row["prompt"], add_special_tokens=False)["input_ids"] for row in rows]
    ids = [row["ids"] for row in rows]
    model = trainer.accelerator.unwrap_model(trainer.model).eval()
    whole, untempered, kept = _read(model, list(zip(prompts, ids, strict=True)), spec)
    reports = all(row["engine_logps"] is not None for row in rows)
    ends = Counter(
        _end(row["ids"], row["text"], trainer.eos_token_ids, engine_stop(spec), spec)
        for row in rows
    )
    return Probe(
        spec.rollout.backend,
        reports,
        arithmetic(trainer),
        ends,
        _flat(rows, "policy_logps"),
        _flat(rows, "engine_logps") if reports else kept,
        whole,
        untempered,
        kept,
        prompts,
    )


def _one_step(spec: RlSpec) -> RlSpec:
    """Return the settings of one step that samples as `spec` does and changes no weight."""
    rl = Grpo(
        steps=1,
        prompts_per_step=PROMPTS,
        rollouts_per_prompt=ROLLOUTS,
        weight_decay=0,
        optimizer="adamw",
        stop_when_stuck=False,
        gradient_checkpointing=False,
        seed=spec.rl.seed,
    )
    source = TrainingSourceSection(name=spec.data.rl.name)
    return replace(
        spec,
        rl=rl,
        anchor=AnchorSection(kl="none"),
        guide=NoGuide(),
        rollout=settled_engine(spec.rollout, 1),
        data=spec.data.model_copy(update={"rl": source}),
    )


def _read(
    model: Any, pairs: list[tuple[Sequence[int], Sequence[int]]], spec: RlSpec
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the texts' log-probabilities by token: tempered, at temperature 1, truncated."""
    kept = SamplingParameters.from_section(spec.rollout, stop=None)
    whole = replace(kept, top_p=1.0, top_k=0, min_p=0.0)
    decodings = (whole, replace(whole, temperature=1.0), kept)
    found: dict[Any, list[FloatArray]] = {}
    keys = [(tuple(prompt), tuple(ids)) for prompt, ids in pairs]
    with torch.inference_mode():
        for batch in batches(keys, int(model.config.get_text_config().vocab_size)):
            for pair, (logits_TV, ids_T) in zip(
                batch, completion_logits(model, batch), strict=True
            ):
                found[pair] = [
                    token_logps(logits_TV, ids_T, one).double().cpu().numpy() for one in decodings
                ]
    plain, untempered, truncated = (
        np.concatenate([found[key][which] for key in keys]) for which in range(3)
    )
    return plain, untempered, truncated


def _flat(rows: Sequence[dict[str, Any]], name: str) -> FloatArray:
    return np.concatenate([np.array(row[name], dtype=float) for row in rows])


def _end(ids: Sequence[int], text: str, eos: Sequence[int], stop: str | None, spec: RlSpec) -> str:
    """Return what ended a completion: end-of-sequence, a stop text, the limit, or else."""
    if ids and ids[-1] in set(eos):
        return "end-of-sequence"
    if stop is not None and stop in text:
        return "stop text"
    return "limit" if len(ids) >= spec.rollout.max_tokens else "something else"
