"""`sage sft`: from demonstrations to the base that RL starts from, trained once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sage_cli.config.consent import consents
from sage_cli.config.in_words import Stage, sft_facts
from sage_cli.config.model import PromptSection, ScratchModel
from sage_cli.config.recipe import SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.errors import BusyError, ConfigurationError
from sage_cli.evaluation.final import FinalMeasurement
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.models.policies.compatibility import note_weights, require_childless
from sage_cli.models.policies.names import NO_LABELS, Labels, NoRunsError, chosen_policies
from sage_cli.models.policies.planned import base_facts, planned_base, sft_run
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.cards import card
from sage_cli.planning.stages import memory_stages
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.lock import wait_for_writer
from sage_cli.store.mirrors.follower import require_mirrors
from sage_cli.store.runs.replacement import current, settled, stage_replacement
from sage_cli.store.runs.run import Run, Runs
from sage_cli.training.optimizers import require_optimizer

if TYPE_CHECKING:
    from sage_cli.training.sft import Example

SHOWN = {"loss": "loss", "mean_token_accuracy": "accuracy"}


def sft(
    config: SageConfig,
    progress: Progress,
    *,
    fresh: bool = False,
    replace_parent: bool = False,
    measure: bool = False,
) -> Run:
    """Train the base of `config`, or go on with it, or find it finished; returns its run.

    `fresh` trains it anew, beside the one that is there until it is finished; one that others grew
    from only with `replace_parent`. `measure` then measures it as `evaluation` says.
    """
    recipe = SftRecipe.of(config)
    if not recipe.sft.enabled:
        raise ConfigurationError(
            "sft.enabled is false: this configuration takes its model as it is",
            "`sage rl` starts from the model itself; or use --set sft.enabled=true",
        )
    require_mirrors(config.tracking)
    measurement = FinalMeasurement.of(config) if measure else None
    runs = Runs(config.run.root)
    with progress.doing("reading what the base is made from"):
        run = sft_run(recipe, runs)
    if not fresh:
        run = current(run)
    elif not replace_parent:
        require_childless(run, runs)
    if run.finished and not fresh:
        progress.say(f"base [bold]{run.id}[/] is trained already")
        if measurement is not None:
            measurement.take(run, progress)
        return run
    require_optimizer(recipe.sft.optimizer, "sft.optimizer")
    progress.say(f"base [bold]{run.id}[/]: loading libraries and demonstrations")
    return settled(_train(config, recipe, run, progress, measurement, fresh=fresh))


def base_policy(config: SageConfig, progress: Progress) -> Policy:
    """The base of `config`: trained first where that is needed and not yet done.

    One that another process is training is waited for, and taken over if that process dies.
    """
    base = planned_base(SftRecipe.of(config), Runs(config.run.root))
    while not base.exists:  # one that is being trained anew beside it changes nothing yet
        if base.run is not None:
            wait_for_writer(current(base.run).folder, progress.say)
        if not base.exists:
            with suppress(BusyError):  # another process took the lock since
                return Policy.of_run(sft(config, progress), consent=consents(config.model))
    if base.run is not None:
        progress.say(f"base [bold]{base.label}[/] is trained already")
    return base


def policies_to_measure(
    config: SageConfig,
    names: Sequence[str],
    progress: Progress,
    *,
    train: bool,
    labels: Labels = NO_LABELS,
) -> list[Policy]:
    """The named policies, or the latest run's; where there is none, with `train`, the base's."""
    try:
        policies = chosen_policies(names, Runs(config.run.root), config.model, labels)
    except NoRunsError:
        if not train:
            raise
        root = config.run.root.resolve()
        progress.say(f"{root} holds no finished run to measure: the preset's base is trained first")
        return [base_policy(config, progress)]
    if not names:
        progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
    return policies


def plan(config: SageConfig, *, measure: bool = False, gpu: str | None = None) -> list[Stage]:
    """The one stage of `sage sft`, with what is there of it; `measure` adds its measurement.

    `gpu` names a card, against which memory is laid.
    """
    recipe = SftRecipe.of(config)
    base = planned_base(recipe, Runs(config.run.root))
    return [
        plan_base(recipe, base),
        *([plan_measurement(config, [base])] if measure else []),
        *(
            memory_stages(config, card(gpu), base=True, training=False, measure=measure)
            if gpu
            else []
        ),
    ]


def plan_base(recipe: SftRecipe, base: Policy) -> Stage:
    """What making the base would take, and whether it is there."""
    if base.run is None:
        return Stage("base", base_facts(base))
    return Stage("base: supervised warm-up", {**base_facts(base), **sft_facts(recipe)})


def _train(
    config: SageConfig,
    recipe: SftRecipe,
    run: Run,
    progress: Progress,
    measurement: FinalMeasurement | None,
    *,
    fresh: bool,
) -> Run:
    """Train `run`, or a fresh one beside it, whatever can fail before done before; which it is."""
    from sage_cli.training.checkpoints import refuse_foreign
    from sage_cli.training.hardware import release_memory
    from sage_cli.training.sft import train_sft
    from sage_cli.training.watch import watched

    if not fresh:
        refuse_foreign(run.checkpoints)
    with progress.doing(f"making demonstrations of {recipe.data.sft.name}"):
        tokenizer, template, examples = sft_inputs(recipe)
    with progress.doing("loading the model"):
        model = _start(recipe, tokenizer)
    if fresh:
        run = stage_replacement(run)
    settings = config.model_dump(mode="json")
    record = run.recording(
        settings, kind="sft", parent=None, seed=recipe.sft.seed, template=template.hash
    )
    with watched(run, config.tracking, "sft", progress, SHOWN) as watch:
        with record as run:
            dtype = recipe.model.compute_dtype
            train_sft(recipe.sft, model, tokenizer, examples, run, watch.on_step, dtype)
            note_weights(run)
        if measurement is not None:
            del model
            release_memory()
            measurement.take(run, progress, watch.mirrors)
    return run


def sft_inputs(recipe: SftRecipe) -> tuple[Any, PromptTemplate, list[Example]]:
    """The tokenizer, the prompt template and the texts that SFT trains on; loads no weights."""
    from sage_cli.models.scratch import build_tokenizer
    from sage_cli.training.sft import Example

    section = recipe.model
    if isinstance(section, ScratchModel):
        demonstrations = load_demonstrations(recipe.data, recipe.sft)
        texts = (f"{shown.question}\n{shown.working}" for shown in demonstrations)
        tokenizer = build_tokenizer(section, tags(recipe.prompt), texts)
        template = PromptTemplate.from_section(recipe.prompt, tokenizer)
    else:
        tokenizer = Policy(section.path, section=section).tokenizer()
        template = PromptTemplate.from_section(recipe.prompt, tokenizer)
        demonstrations = _short_demonstrations(recipe, tokenizer, template)
    loss = recipe.sft.loss
    examples = [Example(*_texts(template, one), loss or one.loss) for one in demonstrations]
    return tokenizer, template, examples


def _short_demonstrations(
    recipe: SftRecipe, tokenizer: Any, template: PromptTemplate
) -> list[Demonstration]:
    """The demonstrations without those that `data.sft.max_prompt_share` leaves out."""

    def length(shown: Demonstration) -> int:
        whole = recipe.data.sft.measured == "conversation"
        text = "".join(_texts(template, shown)) + template.eos if whole else shown.question
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return load_demonstrations(recipe.data, recipe.sft, length)


def _texts(template: PromptTemplate, shown: Demonstration) -> tuple[str, str]:
    """The prompt, and the completion without end-of-sequence."""
    return template.render(shown.question), template.complete(shown.working, shown.answer)


def _start(recipe: SftRecipe, tokenizer: Any) -> Any:
    """The untrained policy."""
    from sage_cli.models.load import attach_lora, load_section
    from sage_cli.models.scratch import build_scratch

    section = recipe.model
    if isinstance(section, ScratchModel):
        return build_scratch(section, tokenizer)
    model = load_section(section)
    return attach_lora(model, section.lora) if section.tuning == "lora" else model


def tags(prompt: PromptSection) -> tuple[str, ...]:
    """The tags that a tokenizer of ours holds as single tokens."""
    return (
        prompt.reasoning_open,
        prompt.reasoning_close,
        prompt.answer_open,
        prompt.answer_close,
    )
