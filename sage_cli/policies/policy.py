"""Which model a training or measurement begins with: a run's, the trained base, or one as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.model import PretrainedModel
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.load import fingerprint, is_model_folder, load_model, load_tokenizer
from sage_cli.progress import Progress
from sage_cli.store.run import Run, Runs, run_of
from sage_cli.workflows.sft import sft


@dataclass(frozen=True)
class Policy:
    """A model by folder or Hub name; the run it came from, unless it is somebody else's model."""

    path: str
    run: Run | None = None
    section: PretrainedModel | None = None
    checkpoint: int | None = None

    @property
    def label(self) -> str:
        """What tables and legends call it."""
        if self.run is None:
            return Path(self.path).name
        return self.run.id if self.checkpoint is None else f"{self.run.id}@{self.checkpoint}"

    @property
    def loading(self) -> dict[str, Any]:
        """How to load it: the Hub revision and consent to remote code, where configured."""
        if self.section is None:
            return {}
        return {
            "revision": self.section.revision,
            "trust_remote_code": self.section.trust_remote_code,
        }

    @property
    def fingerprint(self) -> str:
        """What tells its weights apart from all others."""
        return fingerprint(self.path, self.section.revision if self.section else None)

    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return load_tokenizer(self.path, **self.loading)

    def model(self, *, dtype: str = "auto", trainable: bool = False) -> Any:
        """Its weights, with the adapter where it has one."""
        return load_model(self.path, dtype=dtype, trainable=trainable, **self.loading)


def base_policy(config: SageConfig, progress: Progress, *, fresh: bool = False) -> Policy:
    """The base of `config`: trained first where that is needed and not yet done."""
    if config.sft.enabled:
        run = sft(config, progress, fresh=fresh)
        return Policy(str(run.model), run)
    if isinstance(config.model, PretrainedModel):
        return Policy(config.model.path, section=config.model)
    raise ConfigurationError(
        "model.kind is 'scratch' and sft.enabled is false: random weights are no base for RL",
        "use --set sft.enabled=true, or --init RUN",
    )


def named_policies(name: str, runs: Runs) -> list[Policy]:
    """The policy called `name`, or all checkpoints and the end of a run for `RUN@all`."""
    run_name, at, step = name.partition("@")
    if not (at and step == "all"):
        return [named_policy(name, runs)]
    run = runs.find(run_name)
    checkpoints = [_checkpoint(run, str(step)) for step in checkpoint_steps(run)]
    return checkpoints + ([Policy(str(run.model), run)] if run.finished else [])


def named_policy(name: str, runs: Runs) -> Policy:
    """A run's final model, `RUN@step`'s checkpoint, or any model folder."""
    if Path(name).is_dir() and run_of(Path(name)) is None:
        if is_model_folder(Path(name)):
            return Policy(name)
        raise StoreError(
            f"the folder {name} holds neither a run nor a model",
            "name a run, or a Hugging Face folder with config.json and *.safetensors",
        )
    run_name, at, step = name.partition("@")
    run = runs.find(run_name)
    if at:
        return _checkpoint(run, step)
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished",
            "type its command again to continue it, or name a checkpoint as RUN@step",
        )
    return Policy(str(run.model), run)


def checkpoint_steps(run: Run) -> list[int]:
    """The steps at which `run` has checkpoints, ascending."""
    return sorted(int(path.name.split("-")[1]) for path in run.checkpoints.glob("checkpoint-*"))


def _checkpoint(run: Run, step: str) -> Policy:
    steps = checkpoint_steps(run)
    if not step.isdigit() or int(step) not in steps:
        kept = ", ".join(map(str, steps)) or "none"
        raise StoreError(f"{run.id} has no checkpoint at step '{step}'; it keeps {kept}")
    return Policy(str(run.checkpoints / f"checkpoint-{step}"), run, checkpoint=int(step))
