"""A policy: a model by folder or Hub name, and the run that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli.config.model import PretrainedModel
from sage_cli.models.folders import fingerprint, hub_folder, stored_dtype
from sage_cli.models.tokenizer_files import TokenizerFacts, tokenizer_facts
from sage_cli.store.run import Run


@dataclass(frozen=True)
class Policy:
    """A model by folder or Hub name; the run it came from, unless it is somebody else's model."""

    path: str
    run: Run | None = None
    section: PretrainedModel | None = None
    checkpoint: int | None = None

    @classmethod
    def of_run(cls, run: Run) -> Policy:
        """The model that a run ends with, trained or not yet."""
        return cls(str(run.model), run)

    @property
    def label(self) -> str:
        """What tables and legends call it."""
        if self.run is None:
            return Path(self.path).name
        return self.run.id if self.checkpoint is None else f"{self.run.id}@{self.checkpoint}"

    @property
    def exists(self) -> bool:
        """Whether there is something to load: not so for a run that hasn't come to its end."""
        return self.run is None or self.checkpoint is not None or self.run.finished

    @property
    def pretrained(self) -> PretrainedModel | None:
        """The published model that it is or that its run grew from, where that is said."""
        said = self.run.config.get("model", {}) if self.run else {}
        if self.section is None and said.get("kind") == "pretrained":
            return PretrainedModel.model_validate(said)
        return self.section

    @property
    def loading(self) -> dict[str, Any]:
        """How to load it: the Hub revision and consent to remote code, where configured.

        A run's adapter lies on the model that its run grew from.
        """
        model = self.pretrained
        if model is None:
            return {}
        return {"revision": model.revision, "trust_remote_code": model.trust_remote_code}

    @property
    def folder(self) -> Path:
        """Where its files are: of a model of the Hub in the local cache, at its own revision.

        What isn't there yet keeps its name.
        """
        local = Path(self.path).is_dir()
        cached = None if local else hub_folder(self.path, self.loading.get("revision"))
        return cached or Path(self.path)

    @cached_property
    def fingerprint(self) -> str:
        """What tells its weights apart from all others; read once."""
        return fingerprint(self.path, self.loading.get("revision"))

    @property
    def identity(self) -> str:
        """What names it as a parent, known before it is trained.

        A run's identity, with the step of a checkpoint; the fingerprint of a model that no run
        with an identity made.
        """
        if self.run is None or self.run.identity is None:
            return self.fingerprint
        step = "" if self.checkpoint is None else f"@{self.checkpoint}"
        return self.run.identity + step

    @cached_property
    def tokenizer_facts(self) -> TokenizerFacts | Any:
        """End token and chat template, from files where they tell; else the tokenizer itself."""
        return tokenizer_facts(Path(self.path)) or self.tokenizer()

    def dtype(self, configured: str) -> str:
        """The type that its weights are computed in under the setting `configured`."""
        stored = stored_dtype(self.path) if configured == "auto" else None
        return stored or configured

    def tokenizer(self) -> Any:
        """Its tokenizer."""
        from sage_cli.models.load import load_tokenizer

        return load_tokenizer(self.path, **self.loading)

    def model(self, *, dtype: str = "auto", trainable: bool = False) -> Any:
        """Its weights, with the adapter where it has one."""
        from sage_cli.models.load import load_model

        return load_model(self.path, dtype=dtype, trainable=trainable, **self.loading)
