"""The training runs of `sage sft` and `sage rl`, from a configuration to a finished run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sage_cli.config.consent import consents
from sage_cli.config.load import require_named_model
from sage_cli.config.schema import SageConfig
from sage_cli.counted import counted
from sage_cli.errors import AbsentModelError, BusyError, ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import origins
from sage_cli.models.compatibility import (
    check_adapter_tuning,
    check_fitting_layers,
    check_fitting_start,
    check_fitting_tokenizer,
    note_weights,
    require_childless,
    require_same_parent,
)
from sage_cli.models.config_json import text_part
from sage_cli.models.facts import base_facts, remarks, rl_facts, run_facts, sft_facts
from sage_cli.models.folders import (
    adapter_base,
    is_adapter,
    model_files,
    read_json,
    require_whole_weights,
)
from sage_cli.models.memory_estimates import rl_memory, sft_memory
from sage_cli.models.obstacles import planned_obstacles
from sage_cli.models.planned import planned_base, rl_run, sft_run
from sage_cli.models.policy import Policy, named_policy
from sage_cli.models.reference import check_teacher, reference_policy, teacher_of
from sage_cli.models.shipped_base import put_in_place, shipped_source, why_not_shipped
from sage_cli.models.stages import Described, Stage
from sage_cli.models.start_settings import with_model_of
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress, Silent
from sage_cli.sampling.backends import chosen_backend
from sage_cli.settings.model import ScratchModel, kernel_arguments, trained_dtype
from sage_cli.store.locks import wait_for_writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Origin, Run, Runs
from sage_cli.training.checks import RlChecks, check_demonstrations
from sage_cli.training.launch import (
    accelerate_configuration,
    check_launch,
    ended_with,
    follow,
    is_launched,
    join_processes,
    train_together,
    world_size,
)
from sage_cli.training.pass_rates import pool_facts, pool_identity
from sage_cli.training.rollouts import (
    reference_facts,
    require_rollouts,
    resolve_engine,
    sample_reference,
)
from sage_cli.training.training import Training
from sage_cli.training.watch import StepCallbacks, step_callbacks

if TYPE_CHECKING:
    from sage_cli.evaluation.evaluate import Evaluation


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Stage):
    """A run that a command trains, once: the same command resumes it, or finds it finished.

    `evaluation` is made of what the training leaves.
    """

    kind: ClassVar[Literal["sft", "rl"]]
    shown: ClassVar[Mapping[str, str]]
    """Metrics by name, and what they are called beside the progress bar."""
    called: ClassVar[str]
    """The name of the result in messages."""

    config: SageConfig
    evaluation: Evaluation | None = None

    @cached_property
    @abstractmethod
    def planned(self) -> Run:
        """The run that the settings and the parent name, whether it exists or not."""

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command, in order."""
        if self.evaluation is None:
            return [self]
        from sage_cli.evaluation.evaluate import EvaluationStage

        return [self, EvaluationStage(self.evaluation, [self._policy_of(self.planned)])]

    def execute(self, progress: Progress, *, fresh: bool = False) -> Run:
        """Train the run, resume it, or find it finished. Refusals come before anything is written.

        `fresh` deletes it, once nothing is known to be against training it again. Raises SageError
        for what stands against the training, and Interrupted where a signal ended it.
        """
        require_mirrors(self.config.tracking)
        if (run := self.join()) is not None:
            return run
        if self.evaluation is not None:
            self.evaluation.require()
        with progress.doing(f"reading settings and data of the {self.called}"):
            run = self.planned
        if not fresh:
            run.require_whole()
        else:
            require_childless(run, Runs(self.config.run.root))
        if run.is_finished() and not fresh:
            self.found(run, progress)
            self.measure(run, progress)
            return run
        train = self.prepare(None if fresh else run, progress)
        if fresh:
            run.clear()
        train(run)
        return run

    def join(self) -> Run | None:
        """Train beside the process that records, if one of several was launched; else None."""
        return None

    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before."""
        progress.say(
            f"[bold]{run.id}[/] is trained already; --fresh deletes it and trains it again"
        )

    @abstractmethod
    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Raise SageError for what refuses the training; return the function that trains.

        `resumed` is the run as it is; None where a fresh one will be trained.
        """

    @contextmanager
    def recorded(self, run: Run, origin: Origin, progress: Progress) -> Iterator[StepCallbacks]:
        """Record and mirror the training that happens inside, and measure what it leaves.

        It happens in this process, and in those launched with it.
        """
        from sage_cli.models.loading import release_memory

        began = run.try_manifest().get("template")
        if began not in (None, origin["template"]):
            raise StoreError(
                f"{run.id} was started with prompt template {began}, but the prompts "
                f"now use {origin['template']}",
                "resume it with the release that started it, or start again with "
                "--fresh (this deletes the stored run)",
            )
        config = self.config
        with step_callbacks(run, config.tracking, self.kind, progress, self.shown) as watch:
            with run.recording(self.config.model_dump(mode="json"), **origin):
                yield watch
                note_weights(run)
            if self.evaluation is not None:
                release_memory()
                self.evaluation.measure([self._policy_of(run)], progress, watch.mirrors)

    def measure(self, run: Run, progress: Progress) -> None:
        """Measure a run whose mirrors are closed, if that is asked for."""
        if self.evaluation is not None:
            self.evaluation.measure([self._policy_of(run)], progress)

    def _policy_of(self, run: Run) -> Policy:
        return Policy.of_run(run, consent=consents(self.config.model))


def _evaluation(config: SageConfig, measure: bool) -> Evaluation | None:
    if not measure:
        return None
    from sage_cli.evaluation.evaluate import Evaluation  # loads numpy and pyarrow

    return Evaluation(config)


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
                "sft.enabled is false, so that this configuration has no SFT",
                "use `sage rl`, which starts from the model itself, or --set sft.enabled=true",
            )
        require_named_model(config)
        return cls(config=config, evaluation=_evaluation(config, measure))

    @cached_property
    def planned(self) -> Run:
        """The run that the settings name, whether it exists or not."""
        return sft_run(self.config, Runs(self.config.run.root))

    def describe(self) -> Described:
        """Describe the training, and how far the run is."""
        facts = sft_facts(self.config)
        facts["demonstrations"] += check_demonstrations(self.config)
        section = self.config.model
        if not isinstance(section, ScratchModel):
            check_fitting_tokenizer(
                Policy(section.path, section=section), planned=self.config.prompt
            )
        return Described("initial policy: SFT", {**run_facts(self.planned), **facts})

    def memory(self, gpu_gb: int) -> Described:
        """Lay the training's memory against GPUs of so many GB."""
        return sft_memory(self.config, gpu_gb)

    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Load demonstrations and model, and return the function that trains the model."""
        config = self.config
        progress.say(f"[bold]{self.planned.id}[/]: loading libraries and demonstrations")
        from sage_cli.training.checkpoints import check_own_checkpoints
        from sage_cli.training.hardware import require_optimizer
        from sage_cli.training.sft import sft_inputs, train_sft

        require_optimizer(config.sft.optimizer, "sft.optimizer")
        if resumed is not None:
            check_own_checkpoints(resumed.checkpoints)
        with progress.doing(f"making demonstrations of {config.data.sft.name}"):
            tokenizer, template, examples = sft_inputs(config)
        with progress.doing("loading the model"):
            model = _start(config, tokenizer)

        origin: Origin = {
            "kind": self.kind,
            "parent": None,
            "seed": config.sft.seed,
            "template": template.hash,
        }

        def train(run: Run) -> None:
            nonlocal model
            dtype = config.model.compute_dtype
            with self.recorded(run, origin, progress) as watch:
                train_sft(config.sft, model, tokenizer, examples, run, watch.on_step, dtype)
                model = None  # an evaluation needs its memory

        return train


def _start(config: SageConfig, tokenizer: Any) -> Any:
    from sage_cli.models.loading import attach_lora, build_scratch

    section = config.model
    if isinstance(section, ScratchModel):
        return build_scratch(section, tokenizer)
    policy = Policy(section.path, section=section)
    check_fitting_tokenizer(policy)
    dtype, kernels = trained_dtype(section), kernel_arguments(section)
    model = policy.model(dtype=dtype, kernels=kernels, verify_later=True)
    return attach_lora(model, section.lora) if section.tuning == "lora" else model


@dataclass(frozen=True)
class InitialPolicy(Stage):
    """The policy that RL starts from: the model called `init`, or else the one `config` names."""

    config: SageConfig
    init: str | None = None

    @cached_property
    def policy(self) -> Policy:
        """The policy, trained or not yet."""
        runs = Runs(self.config.run.root)
        if self.init is not None:
            policy = named_policy(self.init, runs, self.config.model)
            policy.require_weights()
        else:
            policy = planned_base(self.config, runs)
        require_whole_weights(policy.path)
        return policy

    @property
    def with_files(self) -> Policy | None:
        """Return the policy, or the model that it is to be trained from; None without one."""
        section = self.config.model
        if self.policy.exists:
            return self.policy
        if self.shipped is not None:
            return Policy.of_run(self.shipped)
        return None if isinstance(section, ScratchModel) else Policy(section.path, section=section)

    def obstacle(self, reach: int) -> str | None:
        """Return why our decoder can't sample `reach` tokens of it, as far as files tell."""
        with suppress(AbsentModelError):
            if (model := self.with_files) is not None:
                folder = model.files
                whole = model_files(adapter_base(folder)) if is_adapter(folder) else folder
                config = text_part(read_json(whole / "config.json"))
                reason = next(planned_obstacles(config, reach), None)
                return (
                    reason and f"the builtin backend can't sample from {model.label}: it {reason}"
                )
        return None

    @cached_property
    def shipped(self) -> Run | None:
        """The base in the package that the policy is a copy of; None for any other policy."""
        scratch = isinstance(self.config.model, ScratchModel)  # no other model is shipped
        return shipped_source(self.policy.run) if self.init is None and scratch else None

    @property
    def is_trained_here(self) -> bool:
        """Return True if SFT under this configuration leaves it."""
        return self.init is None and self.config.sft.enabled and self.shipped is None

    @property
    def needs_training(self) -> bool:
        """Return True if SFT has to be run before RL can start."""
        return self.is_trained_here and not self.policy.exists

    def describe(self) -> Described:
        """Describe where the policy is from, and how far its training is."""
        if self.is_trained_here:
            return self._training.describe()
        check_fitting_tokenizer(self.policy, planned=self.config.prompt)
        if self.init is not None:
            return Described("start", {"policy": self.policy.label})
        return Described("base", base_facts(self.policy))

    def memory(self, gpu_gb: int) -> Described | None:
        """Lay the memory of SFT, where there is one, against GPUs of so many GB."""
        return self._training.memory(gpu_gb) if self.is_trained_here else None

    def ensure_trained(self, progress: Progress) -> Policy:
        """Return the policy, trained first where that is needed and not yet done.

        One that another process trains is waited for, and taken over if that process dies.
        """
        if self.init is not None:
            return self.policy
        base = planned_base(self.config, Runs(self.config.run.root))
        if self.shipped is not None:
            put_in_place(base.run)
            progress.say(f"initial policy [bold]{base.label}[/] comes with sage (from `sage sft`)")
            return base
        while not base.exists:
            if base.run is not None:
                wait_for_writer(base.run.folder, progress.say)
            if not base.exists:
                if why := why_not_shipped(self.config):
                    progress.say(f"the initial policy is trained here, because {why}")
                with suppress(BusyError):  # another process took the lock since
                    run = self._training.execute(progress)
                    return Policy.of_run(run, consent=consents(self.config.model))
        if base.run is not None:
            progress.say(f"initial policy [bold]{base.label}[/] is trained already")
        return base

    @cached_property
    def _training(self) -> SftTraining:
        return SftTraining(config=self.config)


@dataclass(frozen=True, kw_only=True)
class RlTraining(TrainingRun):
    """RL of a policy from `start`."""

    kind = "rl"
    shown = {  # noqa: RUF012
        "reward": "reward",
        "reward/total": "total",
        "kl/reference": "kl",
        "guide/q_mean": "q",
        "entropy": "entropy",
        "pairs/margin": "margin",
        "eval/pass@1": "validation pass@1",
    }
    called = "run"

    start: InitialPolicy
    checks: RlChecks
    """What refuses the training before a model is loaded."""
    warnings: Sequence[str]

    @classmethod
    def of(
        cls, config: SageConfig, init: str | None = None, *, measure: bool = False
    ) -> RlTraining:
        """The training that `config` describes, from `init` or its own initial policy.

        With `measure` evaluated at its end. Raises ConfigurationError where nothing could grade.
        """
        config.grading.require_judge()
        config = with_model_of(init, config)
        if init is None:
            require_named_model(config)
        return cls(
            config=config,
            start=InitialPolicy(config, init),
            checks=RlChecks(config),
            warnings=remarks(config),
            evaluation=_evaluation(config, measure),
        )

    @cached_property
    def planned(self) -> Run:
        """The run that settings and initial policy name, whether it exists or not."""
        config, runs = self.config, Runs(self.config.run.root)
        pool = pool_identity(config, runs.root) if config.data.rl.solved_by else None
        return rl_run(config, self.start.policy, runs, world_size(config.rl.processes), pool)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command, in order."""
        return [self.start, *super().stages]

    def describe(self) -> Described:
        """Describe the training, how far the run is, and which reference samples are stored."""
        config, root, rollout = self.config, self.config.run.root, self.config.rollout
        unread = self.checks.check(offline=True)
        if self.start.policy.is_here and self.start.policy.exists:
            self._check_start(self.start.policy)
        else:
            self.check_teacher()
        measured = "" if self.evaluation is None else config.sampling.backend
        self._check_decoder(rollouts=rollout.backend, samples=measured)
        facts = {
            **run_facts(self.planned),
            **rl_facts(config),
            **(pool_facts(config, root) if config.data.rl.solved_by else {}),
            **reference_facts(config, self.start.policy, root),
        }
        facts["problems"] += unread
        obstacle = self.start.obstacle(rollout.max_tokens)
        if obstacle and config.rl.online and rollout.backend == "auto":
            facts["without vLLM"] = f"{obstacle} (use rollout.backend=transformers)"
        return Described("RL", facts)

    def memory(self, gpu_gb: int) -> Described:
        """Lay the training's memory against GPUs of so many GB."""
        return rl_memory(self.config, gpu_gb)

    def join(self) -> Run | None:
        """Train as one of several processes that a launcher started, unless it is the first.

        The first prepares start and run, holds the run's folder and writes; the others wait, then
        train.
        """
        config = self.config
        check_launch(config.rl, config.model.tuning)
        if not is_launched():
            if config.rl.accelerate is not None:
                accelerate_configuration(config.rl.accelerate)
            return None
        _ = self._launcher_lives
        self._require_base()
        if join_processes().is_main_process:
            return None
        join_processes().wait_for_everyone()
        if not (run := self.planned).is_finished():
            inputs = self.checks.problems, self.checks.validation
            training = Training(config, self.start.policy, *inputs)
            config.rl.load_training().train(training, run, None, Silent())
        return run

    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before, and note that it was asked for again."""
        super().found(run, progress)
        if self.config.run.sweep is None:
            run.ask()
        if is_launched():
            join_processes().wait_for_everyone()

    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Check machine, problems and initial policy, which is trained if need be."""
        from sage_cli.training.checkpoints import check_own_checkpoints

        config = self.config
        self.check_device()
        self.check_rollouts()
        if self.evaluation is not None:
            self.check_sampling()
        with progress.doing(f"reading {config.data.rl.name}"):
            self.checks.check()
        problems, validation = self.checks.problems, self.checks.validation
        start = self.start.ensure_trained(progress)
        self._check_start(start)
        start.require_own()
        check_fitting_tokenizer(start)
        if validation is not None:
            validation.require_room(start)
        require_rollouts(config.rollout, start, world_size(config.rl.processes))
        if resumed is not None:
            require_same_parent(resumed, start)
            check_own_checkpoints(resumed.checkpoints)
        return partial(self._train, Training(config, start, problems, validation), progress)

    def _check_start(self, start: Policy) -> None:
        """Raise ConfigurationError where RL under these settings can't begin at `start`."""
        config = self.config
        check_adapter_tuning(start, config.model.tuning)
        check_fitting_layers(start, config.model)
        if config.anchor.kl != "none":
            reference_policy(start, config)
        if (teacher := teacher_of(config)) is not None:
            check_teacher(teacher, start)
        if self.start.init:
            allowed = config.rl.allow_template_mismatch
            check_fitting_start(start, config.model, config.prompt, other_template=allowed)
        check_fitting_tokenizer(start, planned=config.prompt)

    def check_teacher(self) -> str:
        """Describe the teacher. Raises ConfigurationError if its tokens aren't the policy's."""
        if (teacher := teacher_of(self.config)) is None:
            return "none"
        student = self.start.with_files
        if student is None or not student.is_here:
            return f"{teacher.label}: compared with the policy once that is trained"
        check_teacher(teacher, student)
        return f"{teacher.label} has the vocabulary of {student.label}"

    @cached_property
    def _launcher_lives(self) -> Callable[[], bool]:
        """Ask if the launcher lives. From the first access on, this process ends with it."""
        return follow()

    def _require_base(self) -> None:
        """Under a launcher nothing but RL is trained: the other processes would wait in vain."""
        if self.start.needs_training:
            raise ConfigurationError(
                f"the initial policy {self.start.policy.label} is not trained yet, and "
                "a command under a launcher cannot train it, because that needs a "
                "single process",
                "train it first with `sage sft`, the same --preset, --config and "
                "--runs, and those --set that begin with model, prompt, data.sft or "
                "sft; then run this command again",
            )

    def check_device(self) -> str:
        """Describe what would train here. Raises ConfigurationError where the machine can't."""
        from sage_cli.training.hardware import check_hardware

        processes = world_size(self.config.rl.processes, here=True)
        return check_hardware(self.config, processes, with_sft=self.start.needs_training)

    def check_rollouts(self) -> str:
        """Describe what samples rollouts here. Raises ConfigurationError where nothing can."""
        config, processes = self.config, world_size(self.config.rl.processes)
        if not is_launched() and config.rl.accelerate is not None:
            accelerate_configuration(config.rl.accelerate)
        backend = resolve_engine(config.rollout, processes).backend
        self._check_decoder(rollouts=backend)
        in_processes = counted(processes, "process", "processes")
        return f"sampled with the backend {backend}, in {in_processes}"

    def check_sampling(self) -> str:
        """Describe what samples in evaluations. Raises ConfigurationError where it can't."""
        backend = chosen_backend(self.config.sampling)
        self._check_decoder(samples=backend)
        if backend == "vllm":
            from sage_cli.sampling.vllm_sampler import require_vllm

            require_vllm()
        return f"evaluations sample with the backend {backend}"

    def _check_decoder(self, *, rollouts: str = "", samples: str = "") -> None:
        """Raise ConfigurationError where these backends need our decoder, and it can't."""
        config, reaches = self.config, dict[str, int]()
        if rollouts == "builtin" and config.rl.online:
            reaches["rollout.backend=transformers"] = config.rollout.max_tokens
        if samples == "builtin":
            reaches["sampling.backend=vllm or server"] = config.sampling.max_tokens
        for instead, reach in reaches.items():
            if obstacle := self.start.obstacle(reach):
                raise ConfigurationError(obstacle, f"use --set {instead} for this architecture")

    def _train(self, training: Training, progress: Progress, run: Run) -> None:
        """Train `run` here or in processes of its own. What it draws on is sampled first."""
        from sage_cli.training.rollouts import is_colocated

        for warning in self.warnings:
            progress.say(warning)
        progress.say(f"[bold]{run.id}[/]: loading libraries")
        config, start = self.config, training.start
        sample_reference(training, progress)
        # a training is left to processes of its own: to several where several are asked for, and
        # to one where its rollout engine would hold memory of the GPU that the evaluation's engine
        # needs, because only the end of a process frees it
        needs_gpu = self.evaluation is not None and is_colocated(config.rollout)
        if not is_launched() and (config.rl.processes > 1 or needs_gpu):
            init = self.start.init or (str(start.run.folder) if start.run else None)
            train_together(config, run, init, progress, self.shown)
            run.note(sweep=self.config.run.sweep)  # the launched command knows of no sweep
            self.measure(run, progress)
            return

        origin: Origin = {
            "kind": self.kind,
            "parent": start.run.id if start.run else start.path,
            "parent_weights": start.fingerprint,
            "seed": config.rl.seed,
            "template": PromptTemplate.from_section(config.prompt, start.tokenizer_facts).hash,
            "data": origins(training.problems) or config.data.rl.name,
            "sweep": self.config.run.sweep,
        }
        if (teacher := teacher_of(config)) is not None:
            origin |= {"teacher": teacher.word, "teacher_weights": teacher.fingerprint}
        launched = ended_with(self._launcher_lives) if is_launched() else nullcontext()
        with self.recorded(run, origin, progress) as watch, launched:
            join_processes().wait_for_everyone()
            config.rl.load_training().train(training, run, watch, progress)
