"""A policy: a model by folder or Hub name, and the run that it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli.config.consent import HOW_TO_CONSENT, asks_for_code
from sage_cli.errors import AbsentModelError, ConfigurationError, StoreError
from sage_cli.models.folders import (
    TokenizerFacts,
    fingerprint,
    model_files,
    pinned_revision,
    stored_dtype,
    tokenizer_facts,
)
from sage_cli.models.hub import whole_model
from sage_cli.models.policies.prompting import (
    exported_settings,
    exported_template,
    settings_to_export,
)
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.runs.manifest import IMPORTED
from sage_cli.store.runs.run import Run


@dataclass(frozen=True)
class Policy:
    """A model by folder or Hub name; the run it came from, unless no run made it.

    `called` is a label of the user's for tables and legends. `consent` says whether code that
    a run's model brings may be run; the run itself can't say so.
    """

    path: str
    run: Run | None = None
    section: PretrainedModel | None = None
    checkpoint: int | None = None
    called: str | None = None
    consent: bool = False

    @classmethod
    def of_run(cls, run: Run, *, consent: bool = False) -> Policy:
        """The model that a run ends with, trained or not yet."""
        return cls(str(run.model), run, consent=consent)

    @property
    def word(self) -> str:
        """Its name on a command line."""
        if self.run is None:
            return self.path
        return self.run.id if self.checkpoint is None else f"{self.run.id}@{self.checkpoint}"

    @property
    def label(self) -> str:
        """Its name in tables and legends."""
        return self.called or (Path(self.path).name if self.run is None else self.word)

    @property
    def exists(self) -> bool:
        """Return True if there is something to load; False for an unfinished run."""
        return self.run is None or self.checkpoint is not None or self.run.finished

    @property
    def imported(self) -> bool:
        """Return True if its samples are another program's, and it has no weights."""
        return self.run is not None and self.run.manifest.get("kind") == IMPORTED

    def require_weights(self) -> None:
        """Raise StoreError if there is no model to sample, read or train from."""
        if self.imported:
            raise StoreError(
                f"{self.label} holds imported samples and no model: nothing can be sampled, read "
                "or trained from it",
                "name a run or a model folder; passk, compare, grade and those analyses that need "
                "no model take imported samples",
            )

    @property
    def is_here(self) -> bool:
        """Return True if it exists with its small files: a Hub model may never have been here."""
        try:
            return self.exists and self.files.is_dir()
        except AbsentModelError:
            return False

    @property
    def place(self) -> str:
        """Its folder, or its name on the Hub with the commit."""
        commit = None if Path(self.path).is_dir() else self._commit
        return self.path if commit is None else f"{self.path}@{commit}"

    @cached_property
    def pretrained(self) -> PretrainedModel | None:
        """The published model that it is or that its run grew from, where that is said."""
        if self.section is not None:
            return self.section
        section = self._made_with.get("model") or {}
        if section.get("kind") != "pretrained":
            return None
        return PretrainedModel.model_validate({**section, "trust_remote_code": self.consent})

    @property
    def loading(self) -> dict[str, Any]:
        """The arguments of loading: the commit of a Hub model (or an adapter's base), and consent.

        Raises StoreError for imported samples, and ConfigurationError for a run that was trained
        with code that its model brings, where nothing says that it may be run.
        """
        self.require_weights()
        model = self.pretrained or PretrainedModel()
        if asks_for_code(self._made_with) and not model.trust_remote_code:
            raise ConfigurationError(
                f"{self.label} was trained with Python code that its model brings, which is run "
                "only where that is said",
                HOW_TO_CONSENT,
            )
        return {"revision": self._commit, "trust_remote_code": model.trust_remote_code}

    @property
    def _made_with(self) -> dict[str, Any]:
        """Its run's settings; empty without a run that has begun."""
        has_config = self.run is not None and (self.run.folder / "config.json").is_file()
        return self.run.config if self.run is not None and has_config else {}

    @property
    def _commit(self) -> str | None:
        return pinned_revision(self.path, self._revision)

    @property
    def _revision(self) -> str | None:
        return self.pretrained.revision if self.pretrained else None

    @cached_property
    def files(self) -> Path:
        """The folder with its small files. Raises DataError for a Hub model that can't be had."""
        return model_files(self.path, self._revision)

    @property
    def folder(self) -> Path:
        """The folder with its weights, fetched from the Hub where they aren't here yet."""
        local = Path(self.path)
        return local if local.is_dir() else whole_model(self.path, self._revision)

    @property
    def own_settings(self) -> dict[str, Any]:
        """`prompt` and `sampling` as its run has them, or the `sage.json` of an exported model.

        Empty for other models, which don't say how they are prompted.
        """
        if self.run is not None:
            return settings_to_export(self.run.config)
        return exported_settings(self.files)

    @property
    def template(self) -> str | None:
        """The hash of the prompt template that it was trained under, as far as is known."""
        if self.run is not None:
            return self.run.manifest.get("template")
        return exported_template(self.files)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of its weights; read once."""
        return fingerprint(self.path, self._revision)

    @property
    def identity(self) -> str:
        """The name of a parent, known before it is trained.

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
        return tokenizer_facts(self.files) or self.tokenizer()

    def dtype(self, configured: str) -> str:
        """The type that its weights are computed in under the setting `configured`."""
        stored = stored_dtype(self.files) if configured == "auto" else None
        return stored or configured

    def tokenizer(self) -> Any:
        """Its tokenizer."""
        from sage_cli.models.load import load_tokenizer

        return load_tokenizer(self.path, **self.loading)

    def model(
        self,
        *,
        dtype: str = "auto",
        trainable: bool = False,
        kernels: Mapping[str, Any] | None = None,
    ) -> Any:
        """Its weights, with the adapter where it has one; `kernels` are `kernel_arguments`."""
        from sage_cli.models.load import load_model

        return load_model(
            self.path, dtype=dtype, trainable=trainable, kernels=kernels, **self.loading
        )
