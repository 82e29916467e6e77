"""The base of every method: the settings of RL's loop, and what the commands ask of any method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from pydantic import ConfigDict, Field

from sage_cli.errors import ConfigurationError
from sage_cli.settings.anchor import AnchorSection
from sage_cli.settings.rewards import Reward
from sage_cli.settings.section import COSMETIC, Extensible
from sage_cli.settings.sft import Optimizer, Scheduler

if TYPE_CHECKING:
    from sage_cli.guides import Guide
    from sage_cli.settings.data import DataSection, SourceSection
    from sage_cli.settings.model import ModelSection
    from sage_cli.settings.prompt import PromptSection
    from sage_cli.settings.rollout import RolloutSection


@dataclass(frozen=True)
class Sampled:
    """How many completions a training samples, and why it may be more than the least."""

    least: int
    most: int
    because: str = ""


class OtherSections(Protocol):
    """The sections that a method can check its settings against."""

    @property
    def anchor(self) -> AnchorSection: ...  # noqa: D102
    @property
    def data(self) -> DataSection: ...  # noqa: D102
    @property
    def guide(self) -> Guide: ...  # noqa: D102
    @property
    def model(self) -> ModelSection: ...  # noqa: D102
    @property
    def prompt(self) -> PromptSection: ...  # noqa: D102
    @property
    def rollout(self) -> RolloutSection: ...  # noqa: D102


class Method(Extensible):
    """The RL loop, Table 8; `algo` chooses the method, which may add settings of its own.

    A method is a subclass with `algo: Literal["name"] = "name"`, in a module of this package or
    behind an entry point of the group `sage_cli.methods`. The defaults of its class are its
    settings. Hooks that a subclass does not override do nothing.
    """

    model_config = ConfigDict(defer_build=True)  # of twenty classes a command validates with one

    package = "sage_cli.methods"
    tag = "algo"

    algo: str = "grpo"
    """Method of RL; `sage config algos` lists and explains them."""
    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """Source of default values: `official` uses those of the authors' code where they differ from
    the paper."""
    steps: int = Field(1000, ge=1)
    """Number of optimiser steps that RL takes."""
    prompts_per_step: int = Field(8, ge=1)
    """Number of problems that are sampled per step."""
    rollouts_per_prompt: int = Field(8, ge=2)
    """Number of completions per problem: the group within which advantages are computed."""
    micro_batch: int | None = Field(None, ge=1)
    """Number of completions per forward pass; null means all completions of a process's step."""
    learning_rate: float = Field(5e-6, gt=0)
    """Peak learning rate, which is reached at the end of the learning rate's warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay that AdamW applies."""
    scheduler: Scheduler = "linear"
    """Schedule by which the learning rate falls after its warm-up."""
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises (its warm-up)."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    optimizer: Optimizer = "adamw_8bit"
    """Optimiser: `adamw`, or `adamw_8bit`, which needs a quarter of its memory, but also a GPU and
    bitsandbytes. `fsdp2` cannot shard the latter."""
    gradient_checkpointing: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether to recompute activations in the backward pass instead of keeping them, which saves
    memory and costs time."""
    save_every: int = Field(50, ge=1, json_schema_extra=COSMETIC)
    """Number of optimiser steps after which a checkpoint is written."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """Number of minutes after which a checkpoint is written in any case. It grows if saving would
    take more than 5% of the time."""
    keep_checkpoints: int | None = Field(2, ge=1, json_schema_extra=COSMETIC)
    """Number of latest checkpoints to keep; null keeps all."""
    processes: int = Field(1, ge=1)
    """Number of data-parallel processes on this machine. It is ignored if a launcher has started
    them already."""
    accelerate: str | None = Field(None, json_schema_extra=COSMETIC)
    """Configuration with which Accelerate launches the processes: `ddp`, `fsdp2`, `zero3`, or a
    file."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether RL may start from a run (`--init`) that was trained with another prompt template."""
    stop_when_stuck: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether to stop, instead of only warning, when nearly all completions are truncated or nearly
    all groups have equal rewards."""
    preflight: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether the first completions and log-probabilities are judged before the first update. It
    stops a run whose answers cannot be read, unless `rl.stop_when_stuck` is false, or whose
    log-probabilities are not the model's. A run that begins with the same policy, prompt and
    sampling as an earlier one repeats what that one found (`runs/preflight/`). `off` trains without
    a look."""
    seed: int = 3407
    """Training seed: it decides the order of the problems and the sampling of completions."""

    source: ClassVar[str] = ""
    """Who published it, and its idea in half a sentence."""
    fidelity: ClassVar[Literal["faithful", "reduced"]] = "faithful"
    """The method as published, or a reduced one."""
    read_from: ClassVar[Literal["code", "paper", "secondary"]] = "paper"
    """What it was read from: the authors' code, their paper, or what others write of it."""
    differs: ClassVar[str] = ""
    """What is otherwise than in the source."""
    kl_without_guide: ClassVar[Literal["reverse", "none"]] = "reverse"
    """Its KL term; a guide always brings the reverse KL that it reshapes."""
    anchored: ClassVar[Mapping[str, Any]] = {}
    """Settings of `anchor` that belong to the method."""
    takes_a_guide: ClassVar[bool] = True
    """False where there is no KL term that a guide could reshape."""
    needs_whole_model: ClassVar[bool] = False
    """True where the policy must not be spread over processes."""
    loss_in_parts: ClassVar[bool] = False
    """True where a micro-batch is passed backwards in several parts."""
    online: ClassVar[bool] = False
    """True where completions are sampled from the policy as it trains."""
    keeps_reference: ClassVar[bool] = False
    """True where a frozen copy of the policy is kept, whatever the anchor."""
    trains_alone: ClassVar[bool] = False
    """True where it is trained in one process."""
    trained_by: ClassVar[str] = "sage_cli.training.rl"
    """The module whose `train(training, run, watch, progress)` trains it. It is imported when a
    training begins, so that settings load no trainer."""

    @classmethod
    def stored(cls) -> type[Method]:
        """Return the class for a finished run's method that can't be loaded."""
        # the class stands on this one; the union's files are imported by their names, too
        stored: type[Method] = import_module(f"{cls.package}.policy_gradient").StoredMethod
        return stored

    @classmethod
    def name(cls) -> str:
        """Return the method's name, which `--algo` accepts."""
        return str(get_args(cls.model_fields["algo"].annotation)[0])

    def load_training(self) -> Any:
        """Import and return the module that trains it, with the libraries that this takes."""
        return import_module(self.trained_by)

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps from one generation of completions to the next."""
        return 1

    @property
    def passes(self) -> int:
        """Optimisation passes over one generation of completions."""
        return 1

    @property
    def prompts_per_batch(self) -> int:
        """Problems whose completions are sampled together, before the first step on them."""
        return self.prompts_per_step

    @property
    def replaces_prompts(self) -> bool:
        """Return True if a step may come to other problems than those in its place in order."""
        return False

    @property
    def samples_beforehand(self) -> int:
        """`initial_samples`: completions of each problem that are sampled before training."""
        return int(getattr(self, "initial_samples", 0))

    @property
    def used_rewards(self) -> Sequence[Reward]:
        """Return the rewards of a completion; empty where no reward is maximised."""
        return ()

    @property
    def peak_rate(self) -> float:
        """Return the policy's learning rate at the end of warm-up."""
        return self.learning_rate

    @property
    def sampled(self) -> Sampled:
        """Return how many completions its whole training samples."""
        completions = self.steps * self.prompts_per_step * self.rollouts_per_prompt
        return Sampled(completions, completions)

    def require_installed(self) -> None:
        """Raise ConfigurationError where a finished run's method is not installed here."""

    def require_problems(self, workings: Sequence[str | None], source: SourceSection) -> None:
        """Raise DataError where it can't learn from any problem, by their worked solutions."""
        _ = workings, source

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return why it can't be trained under these settings, a sentence each."""
        begins_at_0 = self.compat == "official" or not self.online
        idle = [
            f"rl.steps 1 would move nothing: with rl.warmup_ratio {self.warmup_ratio:g} the only "
            "step's learning rate is 0 (use more steps, or rl.warmup_ratio=0)"
        ]
        refusals = idle if begins_at_0 and self.steps == 1 and self.warmup_ratio else []
        if self.takes_a_guide or beside.anchor.kl == "none":
            return refusals
        return [
            *refusals,
            f"rl.algo '{self.algo}' holds the policy by something else than a KL term, which a "
            "guide could reshape (use --kl none and --guide none)",
        ]

    def warnings(self) -> list[str]:
        """Return what to say of its settings before a training begins."""
        return []

    def describe(self) -> dict[str, Any]:
        """Return the facts of a dry run that are the method's own, by name."""
        return {}

    def amounts(self, longest: int) -> dict[str, Any]:
        """Return the facts of a dry run on how much is sampled and learnt, by name.

        Completions have at most `longest` tokens.
        """
        batch, sampled = batch_of(self, self.processes), self.sampled
        completions = f"{sampled.least:,}"
        if sampled.most > sampled.least:
            completions = (
                f"at least {completions}, because {sampled.because} (at most {sampled.most:,})"
            )
        ahead = self.prompts_per_batch // self.prompts_per_step
        return {
            "steps": self.steps,
            "batch": f"{self.prompts_per_step} prompts x {self.rollouts_per_prompt} rollouts = "
            f"{batch.completions} completions, in "
            + (f"{self.processes} processes x " if self.processes > 1 else "")
            + f"{batch.accumulation} micro-batch{'es' * (batch.accumulation > 1)} of "
            f"{batch.micro_batch}" + (f", sampled for {ahead} steps at once" if ahead > 1 else ""),
            "completions": completions,
            "tokens at most": f"{sampled.most * longest:,}",
        }


@dataclass(frozen=True)
class StepSizes:
    """The `completions` of one optimiser step = processes x `micro_batch` x `accumulation`."""

    completions: int
    micro_batch: int
    accumulation: int


def batch_of(rl: Method, processes: int) -> StepSizes:
    """Return how a step's completions are divided among `processes` and their micro-batches.

    Without `rl.micro_batch` a process takes all of its completions at once. Raises
    ConfigurationError where the division leaves a rest.
    """
    completions = rl.prompts_per_step * rl.rollouts_per_prompt
    micro_batch = rl.micro_batch or max(1, completions // processes)
    if completions % (micro_batch * processes):
        together = f" x rl.processes {processes}" if processes > 1 else ""
        raise ConfigurationError(
            f"rl.micro_batch {micro_batch}{together} doesn't divide the {completions} completions "
            f"of a step ({rl.prompts_per_step} prompts x {rl.rollouts_per_prompt} rollouts)",
            "choose rl.prompts_per_step, rl.rollouts_per_prompt and rl.micro_batch so that "
            "prompts x rollouts is a multiple of micro_batch x processes",
        )
    return StepSizes(completions, micro_batch, completions // (micro_batch * processes))
