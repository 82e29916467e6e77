"""Training by guided retries: tries, retries of failed problems with a hint, then SFT and DPO.

Completions and grades of the tries are stored as an evaluation's are: an interrupted training
resumes from them. SFT learns correct tries without a hint, DPO (TRL's DPOTrainer) pairs of a
completion that is correct with the hint and one that is wrong without it.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer

from sage_cli.config.schema import SageConfig
from sage_cli.errors import TrainingError
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, judge_of
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import sample_and_grade
from sage_cli.grading.grader import Grader
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.loading import release_memory, switch_off_noise
from sage_cli.models.policy import Policy
from sage_cli.models.reference import policy_and_reference
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.settings.sft import SftSection
from sage_cli.store.completion import Completion
from sage_cli.store.run import Origin, Run
from sage_cli.training.base_trainer import (
    SCHEDULERS,
    SealedCheckpoints,
    common_arguments,
    run_trainer,
    save_policy,
)
from sage_cli.training.checkpoints import prepare_resume
from sage_cli.training.prompt_order import permutations, training_order
from sage_cli.training.sft import Example, train_sft
from sage_cli.training.shortage import LOADING, MemoryNeed, memory_explained
from sage_cli.training.training import Training
from sage_cli.training.validation import Validator
from sage_cli.training.watch import OnStep

if TYPE_CHECKING:
    from sage_cli.training.watch import StepCallbacks

_UNBOUND = 1 << 30
"""Tokens that no completion of a policy has: SFT leaves none of its own out."""
LOGGED = {
    "loss": "loss",
    "rewards/margins": "pairs/margin",
    "rewards/chosen": "pairs/chosen",
    "rewards/rejected": "pairs/rejected",
    "rewards/accuracies": "pairs/accuracy",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
"""What the trainer logs of a step, and what it is called in the step's record."""


@dataclass(frozen=True)
class Attempt:
    """A problem's completions, each text once and in the order of their indices.

    `right` and `wrong` came to their end; `solved` counts correct ones that were cut off, too.
    `sampled` completions and `tokens` are all.
    """

    problem: Problem
    solved: bool
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    sampled: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two completions of a question without its hint: `chosen` came with it, and is correct."""

    question: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Lesson:
    """Questions with correct completions of their own, pairs, and how many there were of what.

    The texts of `examples` are in the order of SFT, each as often as it is taken in.
    """

    examples: Sequence[tuple[str, str]]
    pairs: Sequence[Pair]
    counts: Mapping[str, int]


def train(training: Training, run: Run, watch: StepCallbacks | None, progress: Progress) -> None:
    """Train on what tries and retries teach, and leave the policy in `run.model`.

    What SFT leaves is kept in the run's folder, as a run of its own: it is DPO's reference. Raises
    Interrupted after the step, with a checkpoint, in which a signal asked to stop.
    """
    assert watch is not None  # one process trains, and it is watched
    config, start, tokenizer = training.config, training.start, training.start.tokenizer
    learnt = guided_lesson(training, progress)
    first = {name: float(count) for name, count in learnt.counts.items()}

    def load(folder: Path | None) -> Any:
        """Return the policy from a folder; None is where the training starts."""
        begun = start
        if folder is not None:  # a run of its own, with weights of its own
            begun = Policy(str(folder), Run(folder.parent), start.pretrained)
        with memory_explained(LOADING, run):
            return policy_and_reference(config, begun)[0]

    trained = None
    if learnt.examples:
        warm_up = Run(run.folder / "warm-up")
        if not warm_up.is_finished():
            _warm_up(config, learnt, load(None), tokenizer, run, warm_up)
            shutil.rmtree(warm_up.checkpoints, ignore_errors=True)
            release_memory()
        trained, first["sft/loss"] = warm_up.model, warm_up.metrics.read()[-1]["loss"]
    reference = load(trained) if config.model.tuning == "full" else None
    model, pairs, on_step = load(trained), learnt.pairs, watch.on_step
    validation = training.validation
    validating = validation.begun(tokenizer, watch.on_validation) if validation else nullcontext()
    with validating as validator:
        train_preferences(
            config, model, reference, tokenizer, pairs, run, on_step, first, validator
        )


def guided(config: SageConfig) -> GuidedDpo:
    """Return the method's settings, where it is guided retries."""
    assert isinstance(config.rl, GuidedDpo)
    return config.rl


def guided_lesson(training: Training, progress: Progress) -> Lesson:
    """Have the start try the problems that a training's steps would take, and learn from it."""
    config, problems, rl = training.config, training.problems, guided(training.config)
    chosen = [problems[row] for row in dict.fromkeys(training_order(len(problems), rl))]
    samples = PolicySamples.for_rollouts(training.start, config, training.config.run.root)
    with (
        PolicySampler(samples, training.config.sampling, progress) as sampler,
        grader_for(config.data.rl.name, config.grading, config.prompt) as grader,
    ):
        tried = attempts(chosen, config, sampler, grader)
        failed = [attempt for attempt in tried if not attempt.solved]
        asked = [(attempt, again) for attempt in failed if (again := hinted(attempt.problem, rl))]
        retried = attempts([again for _, again in asked], config, sampler, grader)
    pairs = [(attempt, again) for (attempt, _), again in zip(asked, retried, strict=True)]
    return lesson(tried, pairs, rl, rl.seed)


def hinted(problem: Problem, rl: GuidedDpo) -> Problem | None:
    """Return `problem` asked with a hint, a problem with an id of its own; None without a hint."""
    question = rl.asked_with_hint(problem.question, problem.working)
    if question is None:
        return None
    id_ = problem_id(f"{problem.benchmark} with a hint", question, problem.gold)
    return Problem(id_, problem.benchmark, question, problem.gold)


def attempts(
    problems: Sequence[Problem], config: SageConfig, sampler: PolicySampler, grader: Grader
) -> list[Attempt]:
    """Return the graded `rl.rollouts_per_prompt` completions of each problem, stored or new."""
    name, seed, n = config.data.rl.name, config.rl.seed, config.rl.rollouts_per_prompt
    if not problems:
        return []
    benchmark = Benchmark(name, tuple(problems), *judge_of(name, config.grading.judge))
    grades = sample_and_grade(sampler, benchmark, grader, seed, n)
    graded: defaultdict[str, list[tuple[Completion, str]]] = defaultdict(list)
    for completion, status, _ in grades.stream(benchmark.golds, n):
        graded[completion.problem_id].append((completion, status))
    return [_attempt(problem, graded[problem.id]) for problem in problems]


def _attempt(problem: Problem, graded: list[tuple[Completion, str]]) -> Attempt:
    rows = sorted(graded, key=lambda pair: pair[0].index)

    def texts(*statuses: str) -> tuple[str, ...]:
        ended = (
            row.text for row, status in rows if row.finish_reason == "stop" and status in statuses
        )
        return tuple(dict.fromkeys(ended))

    return Attempt(
        problem,
        solved=any(status == "right" for _, status in rows),
        right=texts("right"),
        wrong=texts("wrong", "unparseable"),
        sampled=len(rows),
        tokens=sum(row.tokens for row, _ in rows),
    )


def lesson(
    tried: Sequence[Attempt],
    retried: Sequence[tuple[Attempt, Attempt]],
    guided: GuidedDpo,
    seed: int,
) -> Lesson:
    """Learn from `tried` problems and from failed ones, each `retried` with its hint.

    A pair holds the next correct completion with the hint and the next wrong one without it, as
    long as there are both. Raises TrainingError where no pair comes about.
    """
    pairs = []
    for failed, again in retried:
        question, hinted = failed.problem.question, again.problem.question
        # the part of its own answer that the policy was given
        begun = hinted.removeprefix(question) if guided.continued else ""
        texts = zip(again.right, failed.wrong, strict=False)
        pairs += [Pair(question, begun + chosen, rejected) for chosen, rejected in texts]
    if not pairs:
        raise _nothing_to_prefer(len(tried), len(retried), guided)
    right = [(attempt.problem.question, text) for attempt in tried for text in attempt.right]
    kept = sorted(permutations(len(right), round(guided.sft_share * len(right)), seed))
    order = permutations(len(kept), guided.sft_epochs * len(kept), seed)
    attempts_made = [*tried, *(again for _, again in retried)]
    counts = {
        "problems/tried": len(tried),
        "problems/failed": sum(not attempt.solved for attempt in tried),
        "problems/retried": len(retried),
        "problems/rescued": sum(again.solved for _, again in retried),
        "pairs/found": len(pairs),
        "sft/examples": len(kept),
        "sampled/completions": sum(attempt.sampled for attempt in attempts_made),
        "sampled/tokens": sum(attempt.tokens for attempt in attempts_made),
    }
    return Lesson([right[kept[index]] for index in order], pairs, counts)


def _nothing_to_prefer(tried: int, retried: int, guided: GuidedDpo) -> TrainingError:
    if retried:
        return TrainingError(
            f"none of {retried} failed problems, retried with the first "
            f"{guided.hint_lines} lines of their solutions, gave a correct completion "
            "to prefer to a wrong one",
            "show more of the solutions (rl.hint_lines), or word the hint so that the "
            "policy heeds it (rl.hint)",
        )
    return TrainingError(
        f"of {tried} problems that were tried none was failed and has a hint: there is nothing to "
        "retry",
        "name harder problems (data.rl.name), try more of them (rl.steps, rl.prompts_per_step), or "
        "each less often (rl.rollouts_per_prompt)",
    )


def _warm_up(
    config: SageConfig, lesson: Lesson, model: Any, tokenizer: Any, run: Run, warm_up: Run
) -> None:
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    examples = [Example(template.render(question), text) for question, text in lesson.examples]
    section = sft_section(guided(config))
    manifest = run.read_manifest()
    origin = Origin(
        kind="sft",
        parent=manifest["parent"],
        seed=config.rl.seed,
        template=manifest["template"],
        data=manifest["data"],
    )
    with warm_up.recording(run.read_config(), **origin) as warm_up:
        dtype = config.model.compute_dtype
        train_sft(section, model, tokenizer, examples, warm_up, lambda _: None, dtype)


def sft_section(rl: GuidedDpo) -> SftSection:
    """Return the SFT settings for correct tries: in order, `rl.prompts_per_step` at a time."""
    return SftSection(
        epochs=1,
        shuffle=False,
        batch_size=rl.prompts_per_step,
        micro_batch=rl.pairs_at_once,
        max_length=_UNBOUND,
        learning_rate=rl.rates[1],
        weight_decay=rl.weight_decay,
        scheduler=rl.scheduler,
        warmup_steps=None,
        warmup_ratio=rl.warmup_ratio,
        max_grad_norm=rl.max_grad_norm,
        optimizer=rl.optimizer,
        gradient_checkpointing=rl.gradient_checkpointing,
        save_every=rl.save_every,
        save_minutes=rl.save_minutes,
        seed=rl.seed,
    )


class PreferenceTrainer(SealedCheckpoints, DPOTrainer):  # type: ignore[misc]
    """DPOTrainer on rows of token ids, whose checkpoints are sealed."""

    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        """Return the rows as they are: TRL would encode prompt and completion together."""
        return dataset


def train_preferences(
    config: SageConfig,
    model: Any,
    reference: Any,
    tokenizer: Any,
    pairs: Sequence[Pair],
    run: Run,
    on_step: OnStep,
    first: Mapping[str, float],
    validator: Validator | None = None,
) -> None:
    """Train `model` in place and leave it in `run.model`; an interrupted run is resumed.

    `reference` is the frozen model; None where `model` has an adapter, which is then copied.
    `first` is added to the first step's record. Raises Interrupted after the step, with a
    checkpoint, in which a signal asked to stop.
    """
    checkpoint = prepare_resume(run, config.rl, model)
    trainer = build_preference_trainer(config, model, reference, tokenizer, pairs, run)
    trainer.add_callback(_Recorder(run, on_step, first, validator))
    rows = 2 * guided(config).pairs_at_once
    use = f"{rows} completions of pairs of up to {config.rollout.max_tokens:,} tokens at once"
    need = MemoryNeed(use, "rl.micro_batch or rollout.max_tokens")
    run_trainer(trainer, run, checkpoint, config.rl.save_minutes, need)
    save_policy(trainer, run)


def build_preference_trainer(
    config: SageConfig, model: Any, reference: Any, tokenizer: Any, pairs: Sequence[Pair], run: Run
) -> PreferenceTrainer:
    """Return the trainer that `train_preferences` runs, ready to train."""
    rows = Dataset.from_list(tokenized_pairs(pairs, tokenizer, config))
    trainer = PreferenceTrainer(
        keep_checkpoints=config.rl.keep_checkpoints,
        model=model,
        ref_model=reference,
        args=dpo_arguments(config, run),
        train_dataset=rows.select(training_order(len(rows), config.rl)),
        processing_class=tokenizer,
    )
    for model in (trainer.model, trainer.ref_model):
        switch_off_noise(model)
    return trainer


def tokenized_pairs(
    pairs: Sequence[Pair], tokenizer: Any, config: SageConfig
) -> list[dict[str, list[int]]]:
    """Return token ids of prompts without hints, and of both completions with end-of-sequence.

    Prompt and completion are encoded apart, as generation sees them.
    """
    template = PromptTemplate.from_section(config.prompt, tokenizer)

    def ids(text: str) -> list[int]:
        encoded: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return encoded

    return [
        {
            "prompt_ids": ids(template.render(pair.question)),
            "chosen_ids": [*ids(pair.chosen), tokenizer.eos_token_id],
            "rejected_ids": [*ids(pair.rejected), tokenizer.eos_token_id],
        }
        for pair in pairs
    ]


def dpo_arguments(config: SageConfig, run: Run) -> DPOConfig:
    """`config` in TRL's words, with every default that matters set by name."""
    rl = guided(config)
    at_once = rl.pairs_at_once
    return DPOConfig(
        max_steps=rl.steps,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=rl.prompts_per_step // at_once,
        loss_type=["sigmoid"],
        beta=rl.preference_beta,
        label_smoothing=0.0,
        f_divergence_type="reverse_kl",
        precompute_ref_log_probs=False,
        sync_ref_model=False,
        disable_dropout=True,
        max_length=None,
        learning_rate=rl.rates[0],
        lr_scheduler_type=SCHEDULERS[rl.scheduler],
        warmup_steps=rl.warmup_ratio,
        train_sampling_strategy="sequential",  # the rows come in the order of the whole training
        save_steps=rl.save_every,
        logging_nan_inf_filter=False,
        **common_arguments(rl, run.checkpoints, config.model.compute_dtype),
    )


class _Recorder(TrainerCallback):  # type: ignore[misc]
    def __init__(
        self, run: Run, on_step: OnStep, first: Mapping[str, float], validator: Validator | None
    ) -> None:
        self.run, self.on_step, self.first, self.validator = run, on_step, first, validator

    def on_log(
        self, _args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **_: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return
        step, last = state.global_step, state.global_step >= state.max_steps
        record: dict[str, Any] = {"step": step, "of": state.max_steps}
        record |= {name: float(logs[key]) for key, name in LOGGED.items() if key in logs}
        sampled = dict.fromkeys((key for key in self.first if key.startswith("sampled/")), 0)
        record |= self.first if step == 1 else sampled
        stops = control.should_training_stop
        if self.validator and (last or not (step % self.validator.interval or stops)):
            record |= self.validator.validate(model)
        self.run.metrics.append(record)
        self.on_step(record)
