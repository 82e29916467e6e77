"""`sage sft`: train the initial policy of RL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_cli.cli import options
from sage_cli.cli.console import refuse_gpu, show_plan, show_trained
from sage_cli.cli.live import Live
from sage_cli.cli.training_run import TrainingRun
from sage_cli.config.consent import consents
from sage_cli.config.describe import sft_facts
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import BusyError, ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.models.planned import base_facts, planned_base, run_facts, sft_run
from sage_cli.models.policy import Policy, named_policy, named_run
from sage_cli.models.stages import Described, Gpu, Stage, plan_of, sft_memory
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.settings.sections.model import (
    PromptSection,
    ScratchModel,
    kernel_arguments,
    trained_dtype,
)
from sage_cli.store.locks import wait_for_writer
from sage_cli.store.manifest import Origin
from sage_cli.store.run import Run, Runs, current
from sage_cli.training.callbacks import Watch

if TYPE_CHECKING:
    from sage_cli.training.sft import Example


def command(
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    lr: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the training.")] = None,
    runs: options.RunRoot = None,
    fresh: options.Fresh = False,
    replace_parent: options.ReplaceParent = False,
    measure: options.Measure = False,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train the initial policy by supervised fine-tuning, or find it trained already."""
    refuse_gpu(gpu, dry_run)
    asked = {"steps": steps, "learning_rate": lr, "seed": seed}
    loaded = options.load_config(preset, config, set_, sft=asked, run={"root": runs})

    training = SftTraining.of(loaded.config, measure=measure)
    if dry_run:
        show_plan(lambda: plan_of(training.stages, gpu), json)
        return
    with Live() as live:
        run = training.carry_out(live, fresh=fresh, replace_parent=replace_parent)
    show_trained(f"initial policy: [bold]{run.folder}[/]", run, measured=measure, json=json)


@dataclass(frozen=True, kw_only=True)
class SftTraining(TrainingRun):
    """Supervised fine-tuning of a model on demonstrations."""

    kind = "sft"
    shown = {"loss": "loss", "mean_token_accuracy": "accuracy"}  # noqa: RUF012
    called = "initial policy"

    @classmethod
    def of(cls, config: SageConfig, *, measure: bool = False) -> SftTraining:
        """The training that `config` describes; with `measure` evaluated at its end.

        Raises ConfigurationError where `config` takes its model as it is.
        """
        if not config.sft.enabled:
            raise ConfigurationError(
                "sft.enabled is false: this configuration takes its model as it is",
                "`sage rl` starts from the model itself; or use --set sft.enabled=true",
            )
        return cls(
            config=config,
            evaluation=Evaluation(config) if measure else None,
        )

    @cached_property
    def planned(self) -> Run:
        """The run that the settings name, whether it exists or not."""
        return sft_run(self.config, Runs(self.config.run.root))

    def describe(self) -> Described:
        """Describe the training, and how far the run is."""
        return Described(
            "base: supervised warm-up", {**run_facts(self.planned), **sft_facts(self.config)}
        )

    def memory(self, gpu: Gpu) -> Described:
        """Describe the GPU memory that the training takes on `gpu`."""
        return sft_memory(self.config, gpu)

    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before."""
        progress.say(f"[bold]{run.id}[/] is trained already; --fresh trains it again")

    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Load demonstrations and model, and return the function that trains the model."""
        config = self.config
        progress.say(f"[bold]{self.planned.id}[/]: loading libraries and demonstrations")
        from sage_cli.training.checkpoints import refuse_foreign
        from sage_cli.training.hardware import require_optimizer
        from sage_cli.training.sft import train_sft

        require_optimizer(config.sft.optimizer, "sft.optimizer")

        if resumed is not None:
            refuse_foreign(resumed.checkpoints)
        with progress.doing(f"making demonstrations of {config.data.sft.name}"):
            tokenizer, template, examples = sft_inputs(config)
        with progress.doing("loading the model"):
            model = _start(config, tokenizer)

        def train(run: Run, watch: Watch) -> None:
            nonlocal model
            dtype = config.model.compute_dtype
            train_sft(config.sft, model, tokenizer, examples, run, watch.on_step, dtype)
            model = None  # an evaluation needs its memory

        origin: Origin = {
            "kind": self.kind, "parent": None, "seed": config.sft.seed, "template": template.hash
        }  # fmt: skip
        return lambda run: self.train_here(run, origin, train, progress)


def sft_inputs(config: SageConfig) -> tuple[Any, PromptTemplate, list[Example]]:
    """The tokenizer, the prompt template and the texts that SFT trains on, without weights."""
    from sage_cli.models.scratch import build_tokenizer
    from sage_cli.training.sft import Example

    section = config.model
    if isinstance(section, ScratchModel):
        demonstrations = load_demonstrations(config.data, config.sft)
        texts = (f"{shown.question}\n{shown.working}" for shown in demonstrations)
        tokenizer = build_tokenizer(section, tags(config.prompt), texts)
        template = PromptTemplate.from_section(config.prompt, tokenizer)
    else:
        tokenizer = Policy(section.path, section=section).tokenizer()
        template = PromptTemplate.from_section(config.prompt, tokenizer)
        demonstrations = _short_demonstrations(config, tokenizer, template)
    loss = config.sft.loss
    examples = [Example(*_texts(template, one), loss or one.loss) for one in demonstrations]
    return tokenizer, template, examples


def _short_demonstrations(
    config: SageConfig, tokenizer: Any, template: PromptTemplate
) -> list[Demonstration]:
    """The demonstrations without those that `data.sft.max_prompt_share` leaves out."""

    def length(shown: Demonstration) -> int:
        whole = config.data.sft.measured == "conversation"
        text = "".join(_texts(template, shown)) + template.eos if whole else shown.question
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return load_demonstrations(config.data, config.sft, length)


def _texts(template: PromptTemplate, shown: Demonstration) -> tuple[str, str]:
    """The prompt, and the completion without end-of-sequence."""
    return template.render(shown.question), template.complete(shown.working, shown.answer)


def _start(config: SageConfig, tokenizer: Any) -> Any:
    from sage_cli.models.load import attach_lora
    from sage_cli.models.scratch import build_scratch

    section = config.model
    if isinstance(section, ScratchModel):
        return build_scratch(section, tokenizer)
    policy = Policy(section.path, section=section)
    model = policy.model(dtype=trained_dtype(section), kernels=kernel_arguments(section))
    return attach_lora(model, section.lora) if section.tuning == "lora" else model


def tags(prompt: PromptSection) -> tuple[str, ...]:
    """The tags that a tokenizer of ours holds as single tokens."""
    return (
        prompt.reasoning_open,
        prompt.reasoning_close,
        prompt.answer_open,
        prompt.answer_close,
    )


@dataclass(frozen=True)
class InitialPolicy(Stage):
    """The policy that RL starts from: the model called `init`, or else the one of `config`."""

    config: SageConfig
    init: str | None = None

    @classmethod
    def of(cls, config: SageConfig, init: str | None = None) -> InitialPolicy:
        """The initial policy of RL under `config`."""
        return cls(config, init)

    @cached_property
    def policy(self) -> Policy:
        """The policy, trained or not yet."""
        runs = Runs(self.config.run.root)
        if self.init is not None:
            policy = named_policy(self.init, runs, self.config.model)
            policy.require_weights()
            return policy
        return planned_base(self.config, runs)

    @property
    def is_trained_here(self) -> bool:
        """Return True if SFT under this configuration leaves it."""
        return self.init is None and self.config.sft.enabled

    def describe(self) -> Described:
        """Describe where the policy is from, and how far its training is."""
        if self.is_trained_here:
            return self._training.describe()
        if self.init is not None:
            return Described("start", {"policy": self.policy.label})
        return Described("base", base_facts(self.policy))

    def memory(self, gpu: Gpu) -> Described | None:
        """Describe the GPU memory that SFT takes on `gpu`, where there is one."""
        return self._training.memory(gpu) if self.is_trained_here else None

    def carry_out(self, progress: Progress) -> Policy:
        """Return the policy, trained first where that is needed and not yet done.

        One that another process trains is waited for, and taken over if that process dies.
        """
        if self.init is not None:
            return self.policy
        base = planned_base(self.config, Runs(self.config.run.root))
        while not base.exists:  # a fresh one that is trained beside it changes nothing yet
            if base.run is not None:
                wait_for_writer(current(base.run).folder, progress.say)
            if not base.exists:
                with suppress(BusyError):  # another process took the lock since
                    run = self._training.carry_out(progress)
                    return Policy.of_run(run, consent=consents(self.config.model))
        if base.run is not None:
            progress.say(f"initial policy [bold]{base.label}[/] is trained already")
        return base

    @cached_property
    def _training(self) -> SftTraining:
        return SftTraining(config=self.config)


def with_model_of(init: str | None, config: SageConfig) -> SageConfig:
    """Return `config` with the model called `init` in the place of one from scratch.

    A folder or a model of the Hub that no run made describes itself. What `sage export` wrote is a
    run's, and stays with the run's settings.
    """
    if init is None or not isinstance(config.model, ScratchModel):
        return config
    runs = Runs(config.run.root)
    if named_run(init, runs) is not None or named_policy(init, runs).own_settings:
        return config
    return changed(config, {"model.kind": "pretrained", "model.path": init})
