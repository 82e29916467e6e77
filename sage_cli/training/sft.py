"""Supervised warm-up on TRL's SFTTrainer: rows arrive as token ids with labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.loading import context_of
from sage_cli.models.policy import Policy
from sage_cli.models.tokenizer import build_tokenizer
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.source_errors import reading
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.model import ComputeDtype, ScratchModel
from sage_cli.settings.sft import SftSection
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.training.base_trainer import SealedCheckpoints, common_arguments, run_trainer
from sage_cli.training.checkpoints import newest_sealed, step_of
from sage_cli.training.shortage import MemoryNeed, disk_explained
from sage_cli.training.watch import OnStep

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and what should follow it; `loss` is `completion` or `text` (both count)."""

    prompt: str
    completion: str
    loss: str = "completion"


def sft_inputs(config: SageConfig) -> tuple[Any, PromptTemplate, list[Example]]:
    """The tokenizer, the prompt template and the texts that SFT trains on, without weights."""
    section = config.model
    if isinstance(section, ScratchModel):
        with reading(config, "data.sft"):
            demonstrations = load_demonstrations(config.data, config.sft)
        texts = (shown.text for shown in demonstrations)
        tokenizer = build_tokenizer(section, config.prompt.tags, texts)
        template = PromptTemplate.from_section(config.prompt, tokenizer)
    else:
        tokenizer = Policy(section.path, section=section).tokenizer
        template = PromptTemplate.from_section(config.prompt, tokenizer)

        def length(shown: Demonstration) -> int:  # what `data.sft.max_prompt_share` goes by
            whole = config.data.sft.measured == "conversation"
            text = "".join(_texts(template, shown)) + template.eos if whole else shown.question
            return len(tokenizer(text, add_special_tokens=False)["input_ids"])

        with reading(config, "data.sft"):
            demonstrations = load_demonstrations(config.data, config.sft, length)
    loss = config.sft.loss
    examples = [
        Example(*_texts(template, demonstration), loss or demonstration.loss)
        for demonstration in demonstrations
    ]
    return tokenizer, template, examples


def _texts(template: PromptTemplate, shown: Demonstration) -> tuple[str, str]:
    """The prompt, and the completion without end-of-sequence."""
    return template.render(shown.question), template.complete(shown.working, shown.answer)


class _Trainer(SealedCheckpoints, SFTTrainer):  # type: ignore[misc]
    """SFTTrainer whose checkpoints are sealed."""


def train_sft(
    section: SftSection,
    model: Any,
    tokenizer: Any,
    examples: Iterable[Example],
    run: Run,
    on_step: OnStep,
    compute_dtype: ComputeDtype = "auto",
) -> None:
    """Train `model` in place and leave it in `run.model`; an interrupted run is resumed.

    `on_step` hears every optimiser step's metrics, after they are in metrics.jsonl. Raises
    Interrupted after the step, with a checkpoint, in which a signal asked to stop.
    """
    rows = tokenized(examples, tokenizer, section.max_length)
    longest, context = max(map(len, rows["input_ids"])), context_of(model.config)
    if context is not None and longest > context:
        raise ConfigurationError(
            f"a demonstration has {longest} tokens, and the model's context has {context}",
            f"use --set sft.max_length={context}, which leaves out longer ones",
        )
    checkpoint = newest_sealed(run.checkpoints, model)
    run.metrics.rewind(step_of(checkpoint) if checkpoint else 0)
    trainer = _Trainer(
        keep_checkpoints=2,
        model=model,
        args=trainer_arguments(section, run.checkpoints, compute_dtype),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        callbacks=[_Recorder(run.metrics, on_step)],
    )
    run_trainer(trainer, run, checkpoint, section.save_minutes, sft_memory_need(section))
    with disk_explained(run.checkpoints, run.model):
        trainer.model.save_pretrained(run.model)
        tokenizer.save_pretrained(run.model)


def sft_memory_need(section: SftSection) -> MemoryNeed:
    """Return what a micro-batch asks for, with all that its gradients need."""
    rows, tokens = section.micro_batch or section.batch_size, section.max_length
    use = f"{rows} demonstrations of up to {tokens:,} tokens at once"
    return MemoryNeed(use, "sft.micro_batch or sft.max_length")


def check_fit(config: SageConfig, tokenizer: Any, examples: Sequence[Example]) -> str:
    """Describe how many demonstrations fit in `sft.max_length`. Raises DataError if none does."""
    most = config.sft.max_length
    fitting = len(tokenized(examples, tokenizer, most)["input_ids"])
    return f"{fitting:,} of {len(examples):,} demonstrations fit in sft.max_length={most} tokens"


def tokenized(
    examples: Iterable[Example], tokenizer: Any, max_length: int
) -> dict[str, list[list[int]]]:
    """Token ids with end-of-sequence, and labels that leave the prompt out unless `loss` is `text`.

    Prompt and completion are encoded apart, as generation sees them. Rows longer than
    `max_length` are dropped rather than cut: a cut answer teaches not to finish. Raises DataError
    when none is left.
    """
    kept = list(examples)
    encode = {"add_special_tokens": False, "return_attention_mask": False}
    prompts = tokenizer([example.prompt for example in kept], **encode)["input_ids"]
    completions = tokenizer([example.completion for example in kept], **encode)["input_ids"]
    rows: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    too_long: list[int] = []
    for example, prompt, completion in zip(kept, prompts, completions, strict=True):
        ids = [*prompt, *completion, tokenizer.eos_token_id]
        if len(ids) > max_length:
            too_long.append(len(ids))
            continue
        hidden = len(prompt) if example.loss == "completion" else 0
        rows["input_ids"].append(ids)
        rows["labels"].append([IGNORED] * hidden + ids[hidden:])
    if not rows["input_ids"]:
        raise DataError(
            f"none of the {len(kept):,} demonstrations fits in sft.max_length={max_length} tokens: "
            f"the shortest has {min(too_long):,}, the longest {max(too_long):,}",
            f"--set sft.max_length={max(too_long)} keeps them all",
        )
    return rows


def trainer_arguments(
    section: SftSection, output: Path, compute_dtype: ComputeDtype = "auto"
) -> SFTConfig:
    """`section` in TRL's words, with every default that matters set by name."""
    micro_batch = section.micro_batch or section.batch_size
    warmup = section.warmup_steps if section.warmup_steps is not None else section.warmup_ratio
    return SFTConfig(
        max_steps=section.steps or -1,
        num_train_epochs=section.epochs,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=section.batch_size // micro_batch,
        learning_rate=section.learning_rate,
        lr_scheduler_type=section.scheduler,
        warmup_steps=warmup,
        train_sampling_strategy="random" if section.shuffle else "sequential",
        max_length=None,
        packing=False,
        save_steps=section.save_every,
        **common_arguments(section, output, compute_dtype),
    )


class _Recorder(TrainerCallback):  # type: ignore[misc]
    def __init__(self, metrics: MetricsFile, on_step: OnStep) -> None:
        self.metrics, self.on_step = metrics, on_step

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            names = ("loss", "learning_rate", "grad_norm", "mean_token_accuracy", "entropy")
            record = {"step": state.global_step, "of": state.max_steps}
            record |= {key: float(logs[key]) for key in names if key in logs}
            self.metrics.append(record)
            self.on_step(record)
