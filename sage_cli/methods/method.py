"""The base of every method: the settings of the training loop, facts, and neutral hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sage_cli.errors import ConfigurationError
from sage_cli.settings.base import COSMETIC
from sage_cli.settings.extensible import Extensible
from sage_cli.settings.sections.anchor import AnchorSection
from sage_cli.settings.sections.training import Optimizer, Scheduler

if TYPE_CHECKING:
    from sage_cli.guides import Guide
    from sage_cli.settings.sections.data import DataSection, SourceSection
    from sage_cli.settings.sections.model import ModelSection, PromptSection
    from sage_cli.settings.sections.rewards import Reward
    from sage_cli.settings.sections.rollout import RolloutSection


class Beside(Protocol):
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


class HasWorking(Protocol):
    """A problem, as far as a method asks whether it can learn from it."""

    @property
    def working(self) -> str | None:
        """Its worked solution, if there is one."""
        ...


class Method(Extensible):
    """The training loop, Table 8; `algo` chooses the method, whose own settings come on top.

    A method is a subclass with `algo: Literal["name"] = "name"`, in a module of this package or
    behind an entry point of the group `sage_cli.methods`. The defaults of its class are its
    settings. Hooks that a subclass does not override do nothing.
    """

    model_config = ConfigDict(defer_build=True)  # of twenty classes a command validates with one

    package = "sage_cli.methods"
    tag = "algo"
    rooms = ("advantages",)

    algo: str = "grpo"
    """The method; `sage config algos` lists them."""
    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """`official` fills in the authors' values where they differ (`sage_cli.settings.compat`)."""
    steps: int = Field(1000, ge=1)
    """Optimiser steps."""
    prompts_per_step: int = Field(8, ge=1)
    """Problems in a step."""
    rollouts_per_prompt: int = Field(8, ge=2)
    """Completions of each, the group that advantages compare."""
    micro_batch: int | None = Field(None, ge=1)
    """Completions that go through the model at once; null: all of a process's step."""
    learning_rate: float = Field(5e-6, gt=0)
    """Peak learning rate, at the end of warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's."""
    scheduler: Scheduler = "linear"
    """How the learning rate falls after warm-up."""
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    optimizer: Optimizer = "adamw_8bit"
    """`adamw`, or with a quarter of its memory `adamw_8bit`, which needs a GPU and bitsandbytes and
    can't be sharded by `fsdp2`."""
    gradient_checkpointing: bool = Field(True, json_schema_extra=COSMETIC)
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(50, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    keep_checkpoints: int | None = Field(2, ge=1, json_schema_extra=COSMETIC)
    """The last so many; null keeps all."""
    processes: int = Field(1, ge=1)
    """Data-parallel processes on this machine, unless a launcher has started some already."""
    accelerate: str | None = Field(None, json_schema_extra=COSMETIC)
    """Launch them by accelerate: `ddp`, `fsdp2`, `zero3`, or the file of a configuration."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Start from a run (`--init`) that was trained under another prompt template."""
    stop_when_stuck: bool = Field(True, json_schema_extra=COSMETIC)
    """Stop, not only warn, when completions are nearly all clipped or groups nearly all equal."""
    seed: int = 3407
    """Of the order of problems and of the completions sampled."""

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
    trained_by: ClassVar[str] = "sage_cli.training.reward_training"
    """The module whose `train(job, run, watch, progress)` trains it. It is imported when a training
    begins, so that settings load no trainer."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of the loop's settings; those of a method come beside them."""
        found = handler(core_schema)
        handler.resolve_ref_schema(found)["additionalProperties"] = cls is Method
        return found

    @classmethod
    def stored(cls) -> type[Method]:
        """Return the class for a finished run's method that can't be loaded."""
        from sage_cli.methods.stored import StoredMethod

        return StoredMethod

    @classmethod
    def name(cls) -> str:
        """Return the method's name, as `--algo` takes it."""
        return str(get_args(cls.model_fields["algo"].annotation)[0])

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
        """Completions of each problem that are sampled from the initial policy before training."""
        return 0

    @property
    def paid(self) -> Sequence[Reward]:
        """Return what a completion is paid; empty where no reward is maximised."""
        return ()

    @property
    def peak_rate(self) -> float:
        """Return the policy's learning rate at the end of warm-up."""
        return self.learning_rate

    def tokens(self, longest: int) -> tuple[int, int]:
        """Return how many tokens are sampled and trained on, if completions have `longest` each."""
        completions = self.steps * self.prompts_per_step * self.rollouts_per_prompt
        return completions * longest, completions * longest

    def require_installed(self) -> None:
        """Raise ConfigurationError where a finished run's method is not installed here."""

    def require_problems(self, problems: Sequence[HasWorking], source: SourceSection) -> None:
        """Raise DataError where it can't learn from any of `problems`, which are the source's."""
        _ = problems, source

    def refusals(self, beside: Beside) -> list[str]:
        """Return why it can't be trained under these settings, a sentence each."""
        _ = beside
        return []

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
        batch = batch_of(self, self.processes)
        ahead = self.prompts_per_batch // self.prompts_per_step
        return {
            "steps": self.steps,
            "batch": f"{self.prompts_per_step} prompts x {self.rollouts_per_prompt} rollouts = "
            f"{batch.completions} completions = "
            + (f"{self.processes} processes x " if self.processes > 1 else "")
            + f"{batch.accumulation} x {batch.micro_batch}"
            + (f", sampled for {ahead} steps" if ahead > 1 else ""),
            "completions": f"{self.steps * batch.completions:,}",
            "tokens at most": f"{self.tokens(longest)[0]:,}",
        }


@dataclass(frozen=True)
class Batch:
    """The `completions` of one optimiser step = processes x `micro_batch` x `accumulation`."""

    completions: int
    micro_batch: int
    accumulation: int


def batch_of(rl: Method, processes: int) -> Batch:
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
    return Batch(completions, micro_batch, completions // (micro_batch * processes))
