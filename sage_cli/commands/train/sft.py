"""`sage sft`: from demonstrations to the initial policy of RL, trained once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sage_cli.commands.train.training_run import TrainingRun
from sage_cli.config.describe import sft_facts
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import RecordSpec, SftSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.models.policies.planned import run_facts, sft_run
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.dry_run import Described, Gpu
from sage_cli.planning.stages import sft_memory
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
from sage_cli.store.runs.manifest import Origin
from sage_cli.store.runs.run import Run, Runs
from sage_cli.training.callbacks import Watch
from sage_cli.training.trainer.optimizers import require_optimizer

if TYPE_CHECKING:
    from sage_cli.training.sft import Example


@dataclass(frozen=True, kw_only=True)
class SftTraining(TrainingRun):
    """Supervised fine-tuning of a model on demonstrations."""

    kind = "sft"
    shown = {"loss": "loss", "mean_token_accuracy": "accuracy"}  # noqa: RUF012
    called = "initial policy"

    spec: SftSpec

    @classmethod
    def of(cls, config: SageConfig, *, measure: bool = False) -> SftTraining:
        """The training that `config` describes; with `measure` evaluated at its end.

        Raises ConfigurationError where `config` takes its model as it is.
        """
        spec = SftSpec.of(config)
        if not spec.sft.enabled:
            raise ConfigurationError(
                "sft.enabled is false: this configuration takes its model as it is",
                "`sage rl` starts from the model itself; or use --set sft.enabled=true",
            )
        return cls(
            spec=spec,
            record=RecordSpec.of(config),
            evaluation=Evaluation.of_config(config) if measure else None,
        )

    @cached_property
    def planned(self) -> Run:
        """The run that the settings name, whether it exists or not."""
        return sft_run(self.spec, Runs(self.record.root))

    def describe(self) -> Described:
        """Describe the training, and how far the run is."""
        return Described(
            "base: supervised warm-up", {**run_facts(self.planned), **sft_facts(self.spec)}
        )

    def memory(self, gpu: Gpu) -> Described:
        """Describe the GPU memory that the training takes on `gpu`."""
        return sft_memory(self.spec, gpu)

    def found(self, run: Run, progress: Progress) -> None:
        """Say that `run` was finished before."""
        progress.say(f"[bold]{run.id}[/] is trained already; --fresh trains it again")

    def prepare(self, resumed: Run | None, progress: Progress) -> Callable[[Run], None]:
        """Load demonstrations and model, and return the function that trains the model."""
        spec = self.spec
        require_optimizer(spec.sft.optimizer, "sft.optimizer")
        progress.say(f"[bold]{self.planned.id}[/]: loading libraries and demonstrations")
        from sage_cli.training.checkpoints.checkpoints import refuse_foreign
        from sage_cli.training.sft import train_sft

        if resumed is not None:
            refuse_foreign(resumed.checkpoints)
        with progress.doing(f"making demonstrations of {spec.data.sft.name}"):
            tokenizer, template, examples = sft_inputs(spec)
        with progress.doing("loading the model"):
            model = _start(spec, tokenizer)

        def train(run: Run, watch: Watch) -> None:
            nonlocal model
            dtype = spec.model.compute_dtype
            train_sft(spec.sft, model, tokenizer, examples, run, watch.on_step, dtype)
            model = None  # an evaluation needs its memory

        origin: Origin = {
            "kind": self.kind, "parent": None, "seed": spec.sft.seed, "template": template.hash
        }  # fmt: skip
        return lambda run: self.train_here(run, origin, train, progress)


def sft_inputs(spec: SftSpec) -> tuple[Any, PromptTemplate, list[Example]]:
    """The tokenizer, the prompt template and the texts that SFT trains on, without weights."""
    from sage_cli.models.scratch import build_tokenizer
    from sage_cli.training.sft import Example

    section = spec.model
    if isinstance(section, ScratchModel):
        demonstrations = load_demonstrations(spec.data, spec.sft)
        texts = (f"{shown.question}\n{shown.working}" for shown in demonstrations)
        tokenizer = build_tokenizer(section, tags(spec.prompt), texts)
        template = PromptTemplate.from_section(spec.prompt, tokenizer)
    else:
        tokenizer = Policy(section.path, section=section).tokenizer()
        template = PromptTemplate.from_section(spec.prompt, tokenizer)
        demonstrations = _short_demonstrations(spec, tokenizer, template)
    loss = spec.sft.loss
    examples = [Example(*_texts(template, one), loss or one.loss) for one in demonstrations]
    return tokenizer, template, examples


def _short_demonstrations(
    spec: SftSpec, tokenizer: Any, template: PromptTemplate
) -> list[Demonstration]:
    """The demonstrations without those that `data.sft.max_prompt_share` leaves out."""

    def length(shown: Demonstration) -> int:
        whole = spec.data.sft.measured == "conversation"
        text = "".join(_texts(template, shown)) + template.eos if whole else shown.question
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return load_demonstrations(spec.data, spec.sft, length)


def _texts(template: PromptTemplate, shown: Demonstration) -> tuple[str, str]:
    """The prompt, and the completion without end-of-sequence."""
    return template.render(shown.question), template.complete(shown.working, shown.answer)


def _start(spec: SftSpec, tokenizer: Any) -> Any:
    from sage_cli.models.load import attach_lora
    from sage_cli.models.scratch import build_scratch

    section = spec.model
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
