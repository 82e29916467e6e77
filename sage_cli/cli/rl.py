"""`sage rl`: train by RL with a shaped anchor."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

from sage_cli.cli import options
from sage_cli.cli.console import refuse_gpu, show_plan, show_trained
from sage_cli.cli.live import Live
from sage_cli.cli.options import METHOD, TRAINING, option
from sage_cli.cli.sft import InitialPolicy, with_model_of
from sage_cli.cli.training_run import TrainingRun
from sage_cli.config.describe import kept_facts, remarks, rl_facts
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import origins
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.training_pool import pool_facts, pool_identity, training_problems
from sage_cli.grading.judges import require_judge
from sage_cli.models.compatibility import (
    refuse_adapter_in_full_tuning,
    refuse_unfit_start,
    require_own_weights,
    require_same_parent,
)
from sage_cli.models.planned import reference_policy, rl_run, run_facts
from sage_cli.models.stages import Described, Gpu, Stage, plan_of, rl_hours, rl_memory
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress, Silent
from sage_cli.settings.passwords import word_without_passwords
from sage_cli.store.manifest import Origin
from sage_cli.store.run import Run, Runs, current
from sage_cli.training.callbacks import Watch
from sage_cli.training.launch import (
    accelerate_configuration,
    ended_with,
    follow,
    is_launched,
    join_processes,
    processes_here,
    require_all_processes,
    require_alone,
    require_fit,
    train_together,
    world_size,
)
from sage_cli.training.rewards import require_plugins, require_rewards
from sage_cli.training.rollouts import reference_facts, require_rollouts, sample_reference
from sage_cli.training.training import Training, train
from sage_cli.training.validation import configured_validation

Compat = Annotated[
    str | None,
    option(METHOD, "official: what the authors' code does (docs/fidelity.md).", "--compat"),
]


def command(
    algo: options.Algo = None,
    compat: Compat = None,
    guide: options.Guide = None,
    tau: options.Tau = None,
    rho: options.Rho = None,
    kl: Annotated[str | None, option(METHOD, "reverse, forward or none.", "--kl")] = None,
    beta: Annotated[float | None, option(METHOD, "Weight of the KL term.")] = None,
    advantage: Annotated[
        str | None, option(METHOD, "group, none or beta, where the method leaves it open.")
    ] = None,
    steps: Annotated[int | None, option(TRAINING, "Optimiser steps.")] = None,
    lr: options.LearningRate = None,
    seed: Annotated[int | None, option(TRAINING, "Seed of the training.")] = None,
    full: Annotated[bool, option(TRAINING, "Train all weights, not adapters.", "--full")] = False,
    processes: Annotated[int | None, option(TRAINING, "How many processes train together.")] = None,
    accelerate: Annotated[
        str | None, option(TRAINING, "How accelerate launches them: ddp, fsdp2, zero3 or a file.")
    ] = None,
    init: options.Init = None,
    data: options.Data = None,
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    fresh: options.Fresh = False,
    replace_parent: options.ReplaceParent = False,
    measure: options.Measure = False,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train a policy by RL whose KL anchor is shaped by a guide."""
    refuse_gpu(gpu, dry_run)
    loaded = options.load_config(
        preset,
        config,
        set_,
        model={"tuning": "full" if full else None},
        rl={
            "algo": algo,
            "compat": compat,
            "advantage": advantage,
            "steps": steps,
            "learning_rate": lr,
            "seed": seed,
            "processes": processes,
            "accelerate": accelerate,
            "allow_template_mismatch": allow_template_mismatch or None,
        },
        guide={"name": guide, "tau": tau, "rho": rho},
        anchor={"kl": kl, "beta": beta},
        data={"rl": {"name": data}},
        run={"root": runs},
    )

    training = RlTraining.of(
        loaded.config,
        init,
        measure=measure,
        base_command=sft_command(preset, config, set_, runs),
    )
    if dry_run:
        show_plan(lambda: plan_of(training.stages, gpu), json)
        return
    with Live() as live:
        run = training.carry_out(live, fresh=fresh, replace_parent=replace_parent)
    more = "" if measure else f"  (`sage passk {run.id}` measures it)"
    show_trained(f"trained: [bold]{run.folder}[/]{more}", run, measured=measure, json=json)


def sft_command(
    presets: Sequence[str] | None,
    config: Path | None,
    sets: Sequence[str] | None,
    runs: Path | None,
) -> str:
    """The command that trains the initial policy of `sage rl` with these options."""
    words = ["sage", "sft"]
    words += [word for preset in presets or () for word in ("--preset", preset)]
    words += [] if config is None else ["--config", str(config)]
    words += [word for one in sets or () for word in ("--set", word_without_passwords(one))]
    words += [] if runs is None else ["--runs", str(runs)]
    return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class RlTraining(TrainingRun):
    """RL of a policy from `start`. `base_command` trains the initial policy if this can't."""

    kind = "rl"
    shown = {  # noqa: RUF012
        "reward": "reward", "reward/total": "total", "kl/reference": "kl", "guide/q_mean": "q",
        "entropy": "entropy", "pairs/margin": "margin", "eval/pass@1": "validation pass@1",
    }  # fmt: skip
    called = "run"

    start: InitialPolicy
    warnings: Sequence[str]
    base_command: str = "sage sft"

    @classmethod
    def of(
        cls,
        config: SageConfig,
        init: str | None = None,
        *,
        measure: bool = False,
        base_command: str = "sage sft",
    ) -> RlTraining:
        """The training that `config` describes, from `init` or its own initial policy.

        With `measure` evaluated at its end. Raises ConfigurationError where nothing could grade.
        """
        require_judge(config.grading.judge)
        config = with_model_of(init, config)
        return cls(
            config=config,
            start=InitialPolicy.of(config, init),
            warnings=remarks(config),
            evaluation=Evaluation(config) if measure else None,
            base_command=base_command,
        )

    @cached_property
    def planned(self) -> Run:
        """The run that settings and initial policy name, whether it exists or not."""
        pool = pool_identity(self.config, self.config.run.root)
        return rl_run(
            self.config, self.start.policy, Runs(self.config.run.root), self._processes, pool
        )

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command, in order."""
        return [self.start, *super().stages]

    def describe(self) -> Described:
        """Describe the training, how far the run is, and which reference samples are stored."""
        facts = {
            **run_facts(self.planned),
            **rl_facts(self.config),
            **pool_facts(self.config, self.config.run.root),
            **kept_facts(self.config, self.config.tracking),
            **reference_facts(self.config, self.start.policy, self.config.run.root),
            **rl_hours(self.config),
        }
        return Described("RL", facts)

    def memory(self, gpu: Gpu) -> Described:
        """Describe the GPU memory that the training takes on each `gpu`."""
        return rl_memory(self.config, gpu)

    def join(self) -> Run | None:
        """Train as one of several processes that a launcher started, unless it is the first.

        The first prepares start and run, holds the run's folder and writes; the others wait, then
        train.
        """
        config = self.config
        require_all_processes()
        if not is_launched():
            if config.rl.accelerate is not None:
                accelerate_configuration(config.rl.accelerate)
            return None
        _ = self._launcher_lives
        require_fit(config.rl, config.model.tuning)
        require_alone(config.rl)
        self._require_base()
        if join_processes().is_main_process:
            return None
        join_processes().wait_for_everyone()
        if not (run := current(self.planned)).finished:
            problems = training_problems(config, self.config.run.root)
            validation = configured_validation(config)
            train(Training(config, self.start.policy, problems, validation), run, None, Silent())
        return run

    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before, and note that it was asked for again."""
        progress.say(f"[bold]{run.id}[/] is trained already; --fresh trains it again")
        if self.config.run.sweep is None:
            run.ask()
        if is_launched():
            join_processes().wait_for_everyone()

    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Check machine, problems and initial policy, which is trained if need be."""
        from sage_cli.training.checkpoints import refuse_foreign

        config = self.config
        require_plugins(config)
        self._require_machine()
        with progress.doing(f"reading {config.data.rl.name}"):
            problems = training_problems(config, self.config.run.root)
            require_rewards(config, problems)
            validation = configured_validation(config)
            config.rl.require_problems(problems, config.data.rl)
        start = self.start.carry_out(progress)
        refuse_adapter_in_full_tuning(start, config.model.tuning)
        if config.anchor.kl != "none":
            reference_policy(start, config)
        require_own_weights(start)
        if self.start.init:
            allowed = config.rl.allow_template_mismatch
            refuse_unfit_start(start, config.model, config.prompt, other_template=allowed)
        require_rollouts(config.rollout, start, self._processes)
        if resumed is not None:
            require_same_parent(resumed, start)
            refuse_foreign(resumed.checkpoints)
        return partial(self._train, Training(config, start, problems, validation), progress)

    @cached_property
    def _launcher_lives(self) -> Callable[[], bool]:
        """Ask if the launcher lives. From the first access on, this process ends with it."""
        return follow()

    @property
    def _processes(self) -> int:
        """The number of processes that train together, launched or yet to be launched."""
        return world_size() if is_launched() else self.config.rl.processes

    @property
    def _trains_apart(self) -> bool:
        """Return True if the training is left to processes of its own.

        To several where several are asked for, and to one where its rollout engine would hold
        memory of the GPU that the evaluation's engine needs: only the end of a process frees it.
        """
        from sage_cli.training.rollout_engine import is_colocated

        needs_gpu = self.evaluation is not None and is_colocated(self.config.rollout)
        return needs_gpu or self.config.rl.processes > 1

    def _require_base(self) -> None:
        """Under a launcher nothing but RL is trained: the other processes would wait in vain."""
        if self.start.is_trained_here and not self.start.policy.exists:
            raise ConfigurationError(
                f"the initial policy {self.start.policy.label} isn't trained yet, and a command "
                "that a launcher started can't train it: that takes one process",
                f"train it first by `{self.base_command}`, then type this command again",
            )

    def _require_machine(self) -> None:
        from sage_cli.training.hardware import require_hardware, require_optimizer
        from sage_cli.training.rollout_engine import settled_engine

        require_hardware(self.config.model, processes_here(self.config.rl.processes))
        require_optimizer(self.config.rl.optimizer, "rl.optimizer")
        settled_engine(self.config.rollout, self._processes)

    def _train(self, training: Training, progress: Progress, run: Run) -> None:
        """Train `run` here or in processes of its own. What it draws on is sampled first."""
        for warning in self.warnings:
            progress.say(warning)
        progress.say(f"[bold]{run.id}[/]: loading libraries")
        config, start = self.config, training.start
        sample_reference(training, progress)
        if not is_launched() and self._trains_apart:
            init = self.start.init or (str(start.run.folder) if start.run else None)
            train_together(config, run, init, progress, self.shown)
            run.note(sweep=self.config.run.sweep)  # the launched command knows of no sweep
            self.measure(run, progress)
            return

        def train_watched(run: Run, watch: Watch) -> None:
            with ended_with(self._launcher_lives) if is_launched() else nullcontext():
                join_processes().wait_for_everyone()
                train(training, run, watch, progress)

        origin: Origin = {
            "kind": self.kind,
            "parent": start.run.id if start.run else start.path,
            "parent_weights": start.fingerprint,
            "seed": config.rl.seed,
            "template": PromptTemplate.from_section(config.prompt, start.tokenizer_facts).hash,
            "data": origins(training.problems) or config.data.rl.name,
            "sweep": self.config.run.sweep,
        }
        self.train_here(run, origin, train_watched, progress)
