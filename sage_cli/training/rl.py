"""RL on TRL: `train` loads models and problems, `build_trainer` builds, `train_rl` carries out.

`grpo_arguments` says the configuration in TRL's words, explicit about every default that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOConfig

from sage_cli.config.schema import SageConfig
from sage_cli.errors import TrainingError
from sage_cli.evaluation.benchmarks import grader_for, questions_by_gold
from sage_cli.grading.grades import AnswerTags, Grade, answer_begin
from sage_cli.methods.hooks import GradeCompletions, Setup
from sage_cli.methods.loop import batch_of
from sage_cli.methods.online import OnlineMethod
from sage_cli.models.loading import context_of
from sage_cli.models.reference import policy_and_reference, shared_vocabulary, teacher_of
from sage_cli.models.tokenizer import keep_tags
from sage_cli.models.verification import verify_weights
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.sampling.stopping import Stopping, eos_ids
from sage_cli.settings.model import PretrainedModel, kernel_arguments, trained_dtype
from sage_cli.settings.rewards import GRADE
from sage_cli.settings.rollout import RolloutSection, VllmRolloutSection
from sage_cli.store.completion import Completion
from sage_cli.store.preflights import KnownPreflight
from sage_cli.store.result_hash import key_of
from sage_cli.store.run import Run
from sage_cli.store.surroundings import surroundings
from sage_cli.training.base_trainer import SCHEDULERS, common_arguments, run_trainer, save_policy
from sage_cli.training.checkpoints import prepare_resume, step_of
from sage_cli.training.first_answers import Format
from sage_cli.training.launch import join_processes, world_size
from sage_cli.training.preflight import Preflight
from sage_cli.training.prompt_order import rows_seen, training_order
from sage_cli.training.reference import ReferenceCompletions, load_teacher
from sage_cli.training.rewards import build_rewards
from sage_cli.training.rollouts import (
    SampleRollouts,
    as_launched,
    context_length,
    engine_as_asked,
    reference_completions,
    resolve_engine,
    sampled_rollouts,
)
from sage_cli.training.run_recorder import RunRecorder
from sage_cli.training.safeguards import Safeguards
from sage_cli.training.shortage import LOADING, MemoryNeed, memory_explained
from sage_cli.training.trainer import SageTrainer
from sage_cli.training.training import Training
from sage_cli.training.validation import Validator
from sage_cli.training.watch import OnStep, StepCallbacks


@dataclass(frozen=True)
class RlInputs:
    """A policy, what holds it, and problems with somebody who grades their answers.

    `model` is trained in place. `reference` is the folder of the frozen reference; None without
    an anchor, or where the policy is a LoRA adapter and finds it in itself. `prompts` are prompt
    texts with their problems. `reference_completions`, by problem id, are what `anchor.kl: forward`
    is computed on, or what a method has `samples_beforehand` for. `validator` changes nothing about
    the training. `sample` is used under `rollout.backend: builtin`; otherwise TRL samples.
    `teacher` is a loaded model in the reference's place, and `vocabulary` the entries of the output
    that it shares with the policy, where there are others.
    """

    model: Any
    reference: Path | None
    tokenizer: Any
    prompts: Sequence[tuple[str, Problem]]
    grader: GradeCompletions
    reference_completions: Mapping[str, Sequence[Completion]] | None = None
    validator: Validator | None = None
    sample: SampleRollouts | None = None
    teacher: Any = None
    vocabulary: int | None = None


def train(training: Training, run: Run, watch: StepCallbacks | None, progress: Progress) -> None:
    """Train on rewarded rollouts, alone or as one of several processes.

    Of several only the first has a `watch`. Leaves the policy in `run.model`.
    """
    config, start = training.config, training.start
    tokenizer = start.tokenizer
    keep_tags(tokenizer, config.prompt)
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    with memory_explained(LOADING, run):
        model, reference = policy_and_reference(config, start)
        teacher = teacher_of(config)
        taught: dict[str, Any] = {}
        if teacher is not None:
            taught["teacher"] = load_teacher(teacher, config.model)
            taught["vocabulary"] = shared_vocabulary(start, teacher)
    with ExitStack() as stack:
        grader = stack.enter_context(grader_for(config.data.rl.name, config.grading, config.prompt))
        on_sampled = watch.on_validation if watch else _nobody
        validator = None
        if training.validation:
            validator = stack.enter_context(training.validation.begun(tokenizer, on_sampled))

        questions = questions_by_gold(training.problems)

        def grades(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
            opened = template.opened or ""
            texts = [opened + completion for completion in completions]
            asked = map(questions.get, golds)
            return grader.grade_many(list(zip(golds, texts, strict=True)), asked)

        inputs = RlInputs(
            model=model,
            reference=reference,
            tokenizer=tokenizer,
            prompts=[(template.render(problem.question), problem) for problem in training.problems],
            grader=grades,
            reference_completions=reference_completions(training),
            validator=validator,
            sample=sampled_rollouts(
                rollout_parameters(config.rollout, template), config.rl.seed, tokenizer
            ),
            **taught,
        )
        by_sft = start.run is not None
        preflight = preflight_of(config, template, run, progress.say, by_sft=by_sft)
        if preflight is not None:
            subject = preflight_subject(training, template, may_stop=preflight.may_stop)
            preflight.known = KnownPreflight(config.run.root, subject, run.id)
        train_rl(config, inputs, run, watch.on_step if watch else _nobody, preflight)


def preflight_of(
    config: SageConfig,
    template: PromptTemplate,
    run: Run,
    say: Callable[[str], None],
    *,
    by_sft: bool,
) -> Preflight | None:
    """Return what looks at the run's first completions; None where `rl.preflight` is off.

    Unreadable answers end a run where the rewards read the grade.
    """
    rl = config.rl
    assert isinstance(rl, OnlineMethod)  # others are trained by a module of their own
    if not rl.preflight:
        return None
    reads_grade = any(reward.name == GRADE and reward.weight for reward in rl.rewards)
    prompt = config.prompt
    form = Format(
        prompt.format, prompt.answer_open, prompt.answer_close, by_sft, config.rollout.max_tokens
    )
    return Preflight(
        form=form,
        parameters=rollout_parameters(config.rollout, template),
        may_stop=reads_grade and rl.stop_when_stuck,
        say=say,
        note=run.note,
    )


def preflight_subject(
    training: Training, template: PromptTemplate, *, may_stop: bool
) -> dict[str, Any]:
    """Return all that decides what a preflight finds, by content, but chance.

    The guide, the anchor and the method's loss are not part of it, because no step has been taken:
    the trials of a sweep over them share what the first one finds.
    """
    config, rl, model = training.config, training.config.rl, training.config.model
    assert isinstance(rl, OnlineMethod)
    return {
        "policy": training.start.fingerprint,
        "tuning": [model.tuning, trained_dtype(model), model.compute_dtype],
        "lora": model.lora.determinants() if model.tuning == "lora" else None,
        "kernels": kernel_arguments(model),
        "passes": [rl.gradient_checkpointing, rl.cast_lm_head_to_fp32, rl.accelerate, world_size()],
        "prompt": [template.hash, config.prompt.determinants()],
        "problems": key_of([(problem.question, problem.gold) for problem in training.problems]),
        "rollout": config.rollout.determinants(),
        "batch": [rl.prompts_per_step, rl.rollouts_per_prompt],
        "grading": config.grading.determinants(),
        "may stop": may_stop,
        # beside a teacher's, entries that no token has may be left out of the policy's output
        **({"teacher": teacher.fingerprint} if (teacher := teacher_of(config)) else {}),
        # a release of a library, or another processor's kernels, may compute something else
        "versions": surroundings()["versions"],
        "commit": surroundings()["commit"],
        # a build for GPUs may run where there is none
        "device": torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else torch.backends.cpu.get_cpu_capability(),
    }


def _nobody(*_: Any) -> None:
    """Ignore the steps and validations of a process that shows nothing."""


def train_rl(
    config: SageConfig,
    inputs: RlInputs,
    run: Run,
    on_step: OnStep,
    preflight: Preflight | None = None,
) -> None:
    """Train `inputs.model` in place and leave it in `run.model`; an interrupted run is resumed.

    `on_step` hears each optimiser step's record, after it is in metrics.jsonl. Raises Interrupted
    at the end of the generation batch, with a checkpoint, in which a signal asked to stop.
    """
    rl, rollout = config.rl, resolve_engine(config.rollout, world_size())
    config = config.model_copy(update={"rollout": rollout})
    # one process removes incomplete checkpoints and rewinds the records before the others look at
    # them
    with join_processes().main_process_first():
        checkpoint = prepare_resume(run, rl, inputs.model)
    with ExitStack() as loading:
        if rollout.backend == "vllm":
            done = step_of(checkpoint) if checkpoint else 0
            loading.enter_context(as_launched())
            loading.enter_context(engine_as_asked(rl.seed, done, rollout.logprobs_mode))
        loading.enter_context(memory_explained(LOADING, run))
        if inputs.reference is not None:  # which TRL loads
            loading.enter_context(verify_weights(inputs.reference, later=True))
        trainer = build_trainer(config, inputs, run, on_step, preflight)
    # a checkpoint inside a generation batch would lose the batch's other completions
    period, need = rl.steps_per_batch, memory_need(config)
    trainer.step_began = perf_counter()
    run_trainer(trainer, run, checkpoint, rl.save_minutes, need, period=period)
    save_policy(trainer, run)


def memory_need(config: SageConfig) -> MemoryNeed:
    """Return what a micro-batch asks for, with all that its gradients need."""
    rows, tokens = batch_of(config.rl, world_size()).micro_batch, config.rollout.max_tokens
    use = f"{rows} completions of up to {tokens:,} tokens at once"
    return MemoryNeed(use, "rl.micro_batch or rollout.max_tokens")


def build_trainer(
    config: SageConfig,
    inputs: RlInputs,
    run: Run,
    on_step: OnStep,
    preflight: Preflight | None = None,
) -> SageTrainer:
    """Return the trainer that `train_rl` runs, ready to train; `auto` engines are settled."""
    rl, tokenizer = config.rl, inputs.tokenizer
    assert isinstance(rl, OnlineMethod)
    problems = [problem for _, problem in inputs.prompts]
    template = PromptTemplate.from_section(config.prompt, tokenizer)

    ends = eos_ids(getattr(inputs.model.generation_config, "eos_token_id", None), tokenizer)
    parameters, stopping = rollout_parameters(config.rollout, template), None
    if parameters.stop is not None:
        stopping = Stopping(tokenizer, ends, len(tokenizer), parameters)
    arguments = grpo_arguments(config, run.checkpoints, processes=world_size())
    fit_rollouts(arguments, config.rollout, inputs, parameters, ends)
    if arguments.device.type == "cpu":
        # accelerate numbers the CPUs of several processes, and torch.load knows no `cpu:1`: a
        # training that is resumed couldn't read its optimiser
        arguments.__dict__["_setup_devices"] = torch.device("cpu")  # a cached property
    if inputs.reference is not None:
        # TRL loads the reference from where the policy's configuration says it came from
        inputs.model.config._name_or_path = str(inputs.reference)

    stored, earlier = None, run.metrics.read()
    if config.samples_beforehand:  # for forward KL or for the method
        sampled, rows = inputs.reference_completions or {}, rows_seen(len(problems), rl)
        stored = ReferenceCompletions.encode(problems, sampled, tokenizer, template.stop, rows)
    setup = setup_of(config, inputs, stored, earlier)
    hooks = rl.hooks(setup)
    kept = None
    if config.tracking.rollouts == "all":
        kept = run.completions(join_processes().process_index)
    ids_of_problems = [problem.id for problem in problems]
    trainer = SageTrainer(
        rl=rl,
        hooks=hooks,
        anchor=config.anchor,
        guide=config.guide.for_training(rl.steps),
        reference_completions=stored if config.anchor.kl == "forward" else None,
        safeguards=Safeguards(stop=rl.stop_when_stuck, earlier=earlier),
        stopping=stopping,
        validator=inputs.validator,
        preflight=preflight,
        recorder=RunRecorder(
            run, run.ledger, config.tracking, ids_of_problems, hooks.reward, on_step, kept
        ),
        sample=inputs.sample if config.rollout.backend == "builtin" else None,
        model=inputs.model,
        teacher=inputs.teacher,
        vocabulary=inputs.vocabulary,
        reward_set=build_rewards(config, rl, hooks.reward, problems),
        args=arguments,
        train_dataset=setup.population.select(training_order(len(problems), rl)),
        processing_class=tokenizer,
    )
    if inputs.validator is not None and trainer.is_sharded:
        raise TrainingError(
            "evaluation.every validates the policy in one process, and the launcher "
            "shards it over all of them",
            "leave evaluation.every out, and measure checkpoints afterwards: `sage eval RUN@all`",
        )
    return trainer


def fit_rollouts(
    arguments: GRPOConfig,
    rollout: RolloutSection,
    inputs: RlInputs,
    parameters: SamplingParameters,
    ends: Sequence[int],
) -> None:
    """Tell TRL's engine how long texts get and where they end, `ends` among these places.

    Raises ConfigurationError where the longest prompt and a whole completion don't fit, under
    every backend.
    """
    texts = [text for text, _ in inputs.prompts]
    lengths = list(map(len, inputs.tokenizer(texts, add_special_tokens=False)["input_ids"]))
    context = context_length(rollout, lengths, context_of(inputs.model.config))
    if inputs.teacher is not None:  # it reads the same texts
        context_length(rollout, lengths, context_of(inputs.teacher.config))
    if rollout.backend != "vllm":
        return
    arguments.vllm_max_model_length = context
    arguments.generation_kwargs = vllm_ends(parameters, ends)
    if inputs.vocabulary is not None:
        entries = inputs.model.config.get_text_config().vocab_size
        barred = dict.fromkeys(range(inputs.vocabulary, entries), -100.0)
        arguments.generation_kwargs |= {"logit_bias": barred} if barred else {}


def setup_of(
    config: SageConfig,
    inputs: RlInputs,
    stored: ReferenceCompletions | None,
    earlier: Sequence[Mapping[str, Any]],
) -> Setup:
    """Return what the hooks of a method are made of; `stored` was sampled beforehand."""
    sampled, initial = inputs.reference_completions or {}, {}
    for row, tokens in enumerate(stored.ids if stored is not None else ()):
        if tokens:
            completions = sampled[inputs.prompts[row][1].id]
            texts = (completion.text for completion in completions)
            initial[row] = list(zip(texts, (ids.tolist() for ids in tokens), strict=True))
    tags = AnswerTags(config.prompt.answer_open, config.prompt.answer_close)
    per_batch = config.rl.steps_per_batch
    return Setup(
        grader=inputs.grader,
        prompts=inputs.prompts,
        # TRL's rows
        population=Dataset.from_dict(
            {
                "prompt": [text for text, _ in inputs.prompts],
                "gold": [problem.gold for _, problem in inputs.prompts],
                "row": list(range(len(inputs.prompts))),
            }
        ),
        answer_open=tags.open,
        answer_begin=partial(answer_begin, tags=tags),
        # one of each generation batch before
        records=[record for record in earlier if (record["step"] - 1) % per_batch == 0],
        initial=initial,
    )


def grpo_arguments(config: SageConfig, output: Path, *, processes: int = 1) -> GRPOConfig:
    """Return TRL's arguments for one generation batch per `rl.steps_per_batch` optimiser steps.

    vLLM samples where `rollout.backend` says so: `auto` has been decided before. Raises
    ConfigurationError when a step's completions can't be divided among processes and
    micro-batches.
    """
    rl, anchor, model, rollout = config.rl, config.anchor, config.model, config.rollout
    assert isinstance(rl, OnlineMethod)
    batch = batch_of(rl, processes)
    return GRPOConfig(
        max_steps=rl.steps,
        per_device_train_batch_size=batch.micro_batch,
        gradient_accumulation_steps=batch.accumulation,
        # in micro-batches
        steps_per_generation=batch.accumulation * rl.steps_per_generation,
        num_generations=rl.rollouts_per_prompt,
        learning_rate=rl.learning_rate,
        lr_scheduler_type=SCHEDULERS[rl.scheduler],
        warmup_steps=rl.warmup_ratio,
        # any but 0 has TRL keep a reference, which a method may read without a KL term
        beta=anchor.beta if anchor.kl == "reverse" else float(rl.keeps_reference),
        trust_remote_code=isinstance(model, PretrainedModel) and model.trust_remote_code,
        # True would multiply the k3 by the importance ratio: another method, in which a guide
        # that depends on the state alone drops out in expectation
        use_bias_correction_kl=anchor.estimator == "k3-corrected",
        mask_truncated_completions=False,
        shuffle_dataset=False,  # the rows come in the order of the whole training
        remove_unused_columns=False,
        cast_lm_head_to_fp32=rl.cast_lm_head_to_fp32,
        disable_dropout=True,  # rollouts, losses and reference are of one network
        # rounded up to the end of a generation batch, which isn't saved
        save_steps=-(-rl.save_every // rl.steps_per_batch) * rl.steps_per_batch,
        logging_nan_inf_filter=False,
        log_completions=False,
        ddp_find_unused_parameters=False,
        **rl.trl_arguments(),
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        min_p=rollout.min_p or None,
        max_completion_length=rollout.max_tokens,
        **(_vllm(rollout.vllm) if rollout.backend == "vllm" else {}),
        **common_arguments(rl, output, model.compute_dtype),
    )


def rollout_parameters(rollout: RolloutSection, template: PromptTemplate) -> SamplingParameters:
    """Return how rollouts are sampled and where they end, under every backend."""
    return SamplingParameters.from_section(rollout, template if rollout.stop_at_answer else None)


def vllm_ends(parameters: SamplingParameters, ends: Sequence[int]) -> dict[str, Any]:
    """Return where vLLM ends a rollout: at all end-of-sequence ids, and at the stop text.

    TRL leaves them to the engine, which knows those of the base alone.
    """
    arguments: dict[str, Any] = {"stop_token_ids": list(ends)}
    if parameters.engine_stop is not None:
        # a tag may be a special token of the engine's tokenizer
        detokenized = {"include_stop_str_in_output": True, "skip_special_tokens": False}
        arguments |= {"stop": [parameters.engine_stop], **detokenized}
    return arguments


def _vllm(vllm: VllmRolloutSection) -> dict[str, Any]:
    """Return the engine's settings but for its context's length, which prompts decide."""
    corrected = vllm.importance_correction != "none"
    mode = {"vllm_importance_sampling_mode": vllm.importance_correction} if corrected else {}
    return {
        "use_vllm": True,
        "vllm_mode": vllm.mode,
        "vllm_tensor_parallel_size": vllm.tensor_parallel,
        "vllm_gpu_memory_utilization": vllm.memory_share,
        "vllm_enable_sleep_mode": vllm.sleep,
        "vllm_server_base_url": vllm.server_url,
        "vllm_server_timeout": vllm.server_timeout_s,
        "vllm_group_port": vllm.server_group_port,
        "vllm_importance_sampling_correction": corrected,
        "vllm_importance_sampling_clip_max": vllm.importance_cap,
        "vllm_importance_sampling_clip_min": vllm.importance_floor,
        **mode,
    }
