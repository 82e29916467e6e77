"""Policies by name: a run, a checkpoint, a folder, a model of the Hub, with its settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.consent import HOW_TO_CONSENT, asks_for_code, consents
from sage_cli.errors import AbsentModelError, ConfigurationError, StoreError
from sage_cli.file_hash import changed_files
from sage_cli.models.config_json import stored_dtype
from sage_cli.models.folders import (
    adapter_base,
    check_no_gguf,
    fingerprint,
    is_adapter,
    is_model_folder,
    model_files,
    read_json,
)
from sage_cli.models.hub_cache import is_hub_name, pinned_revision, whole_model
from sage_cli.models.shipped_base import put_in_place, shipped_run_named
from sage_cli.models.tokenizer_facts import TokenizerFacts, tokenizer_facts
from sage_cli.models.verification import sealed_to_load
from sage_cli.problems.problem import PROBLEMS
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.model import PretrainedModel, ScratchModel
from sage_cli.settings.prompt import PromptSection
from sage_cli.store.run import IMPORTED, SEAL, Run, Runs, run_of

if TYPE_CHECKING:
    from sage_cli.problems.template import PromptTemplate

SAGE_FILE = "sage.json"
Model = PretrainedModel | ScratchModel | None
"""The configured model: its `revision` holds for what no run made, its `trust_remote_code` for all.
"""
Labels = Mapping[str, str]
"""Name that was typed -> what tables and figures are to call the model."""
NO_LABELS: Labels = {}


def settings_to_export(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prompt and decoding settings in a run's configuration or a `sage.json`.

    Never the place of sampling: a received file names no servers.
    """
    sampling = config.get("sampling") or {}
    decoding = {key: sampling[key] for key in DecodingSection.model_fields if key in sampling}
    return {"prompt": config.get("prompt"), "sampling": decoding or None}


def stored_settings(run: Run) -> dict[str, Any]:
    """Return a run's stored configuration; the benchmark of an imported one is its own problems.

    They lie beside the configuration, so that a folder of runs may be moved, and the configuration
    names no other file. Raises StoreError if it has been changed since the run ended.
    """
    run.require_unchanged("config.json")
    settings = {key: value for key, value in run.read_config().items() if value is not None}
    if run.read_manifest().get("kind") != IMPORTED:
        return settings
    problems = {"benchmark": str(run.folder / PROBLEMS), "fields": {}}
    return {**settings, "evaluation": {**settings.get("evaluation", {}), **problems}}


def known_sampling(run: Run) -> dict[str, Any]:
    """Return what the file of an imported run says of sampling: numbers and texts alone."""
    settings = (run.read_manifest().get("imported") or {}).get("settings") or {}
    numbers = ("temperature", "top_p", "max_tokens", "seed")
    return {
        key: value
        for key, value in settings.items()
        if isinstance(value, int | float if key in numbers else str | int | float)
    }


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
        """Return the model that a run ends with, trained or not yet."""
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
        return self.run is None or self.checkpoint is not None or self.run.is_finished()

    @property
    def imported(self) -> bool:
        """Return True if its samples are another program's, and it has no weights."""
        return self.run is not None and self.run.read_manifest().get("kind") == IMPORTED

    def require_weights(self) -> None:
        """Raise StoreError if there is no model to sample, read or train from."""
        if self.imported:
            raise StoreError(
                f"{self.label} consists of imported samples without a model, so that "
                "it cannot be sampled from, read or trained",
                "give a run or a model folder. Imported samples can be used by passk, "
                "compare, grade and analyses that need no model",
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
        return self.run.read_config() if self.run is not None and has_config else {}

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
            return settings_to_export(self.run.read_config())
        exported = settings_to_export(read_json(self.files / SAGE_FILE))
        return {section: settings for section, settings in exported.items() if settings}

    @property
    def template(self) -> str | None:
        """The hash of the prompt template that it was trained under, as far as is known."""
        if self.run is not None:
            return self.run.read_manifest().get("template")
        template = read_json(self.files / SAGE_FILE).get("template")
        return str(template) if template else None

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of its weights; read once. Raises StoreError as `require_own` does."""
        if self.run is None:
            return fingerprint(self.path, self._revision)
        folder = Path(self.path)
        if is_adapter(folder) and (base := run_of(Path(adapter_base(folder)))) is not None:
            Policy.of_run(base).require_own()
        if self.checkpoint is not None:
            if changed := changed_files(folder, sealed_to_load(folder)):
                happened = "differs from" if (folder / changed[0]).exists() else "is missing from"
                raise StoreError(
                    f"{folder / changed[0]} {happened} what training saved",
                    "restore it, or remove the checkpoint",
                )
            return fingerprint(folder, self._revision)
        left = self.run.read_manifest().get("weights")
        # PEFT would load an adapter from the other file, too
        files = [*folder.glob("*.safetensors"), *folder.glob("adapter_model.bin")]
        if left is not None and not files:  # removed to save space: its samples are still its own
            self.run.require_unchanged("config.json", "model", removed=(".safetensors",))
            return str(left)
        self.run.require_unchanged("config.json", "model")
        there = fingerprint(folder, self._revision)
        if left not in (None, there):
            raise StoreError(
                f"{folder} was changed: training ended with weights {left}, and now "
                f"there are {there}",
                f"restore them, or train {self.run.id} again with --fresh (this "
                "deletes the stored run)",
            )
        return there

    def require_own(self) -> None:
        """Raise StoreError if the model of a run, or its configuration, isn't what it ended with.

        So it does for a checkpoint that isn't what was saved, and for the run of an adapter's base.
        """
        if self.run is not None:
            self.fingerprint  # noqa: B018

    @property
    def identity(self) -> str:
        """The name of a parent, known before it is trained.

        A run's identity, with the step of a checkpoint; the fingerprint of a model that no run
        with an identity made.
        """
        identity = None if self.run is None else self.run.read_identity()
        if identity is None:
            return self.fingerprint
        return identity if self.checkpoint is None else f"{identity}@{self.checkpoint}"

    @cached_property
    def tokenizer_facts(self) -> TokenizerFacts | Any:
        """End token and chat template, from files where they tell; else the tokenizer itself."""
        return tokenizer_facts(self.files) or self.tokenizer

    def dtype(self, configured: str) -> str:
        """Return the type that its weights are computed in under the setting `configured`."""
        stored = stored_dtype(self.files) if configured == "auto" else None
        return stored or configured

    @cached_property
    def tokenizer(self) -> Any:
        """Its tokenizer. Raises StoreError as `require_own` does."""
        self.require_own()
        from sage_cli.models.tokenizer import load_tokenizer

        return load_tokenizer(self.path, **self.loading)

    @cached_property
    def outline(self) -> Any:
        """Its model without weights; an adapter's base."""
        from sage_cli.models.loading import outline

        return outline(self.files, trust_remote_code=self.loading["trust_remote_code"])

    def model(
        self,
        *,
        dtype: str = "auto",
        trainable: bool = False,
        kernels: Mapping[str, Any] | None = None,
        verify_later: bool = False,
    ) -> Any:
        """Its weights, with the adapter where it has one; `kernels` are `kernel_arguments`.

        Raises StoreError as `require_own` and, unless `verify_later`, `verify_weights` do.
        """
        self.require_own()
        from sage_cli.models.loading import load_model

        return load_model(
            self.path,
            dtype=dtype,
            trainable=trainable,
            kernels=kernels,
            verify_later=verify_later,
            **self.loading,
        )


def chosen_policies(
    names: Sequence[str], runs: Runs, model: Model = None, labels: Labels = NO_LABELS
) -> list[Policy]:
    """Return the policies of `names`, each once; without names that of the latest finished run.

    Raises StoreError where there is none, ConfigurationError where two have one label.
    """
    if not names:
        latest = runs.latest()
        if latest is None:
            raise StoreError(
                f"{runs.root.resolve()} contains no finished run to measure",
                "give a run or a model, or the folder of runs with --runs; `sage rl` trains a run",
            )
        return [Policy.of_run(latest, consent=consents(model))]
    policies_named = [
        replace(policy, called=labels.get(name))
        for name in names
        for policy in named_policies(name, runs, model)
    ]
    policies = list({policy.path: policy for policy in policies_named}.values())
    check_distinct_labels(policies)
    return policies


def check_distinct_labels(policies: Sequence[Policy]) -> None:
    """Raise ConfigurationError where tables and figures would call two of `policies` the same."""
    labels = Counter(policy.label for policy in policies)
    alike = [policy.path for policy in policies if labels[policy.label] > 1]
    if alike:
        raise ConfigurationError(
            f"these models would have the same name in tables and figures: {', '.join(alike)}",
            "rename a folder, or give one a label (RUN=Label) where the command accepts labels",
        )


def split_label(typed: str) -> tuple[str, str | None]:
    """`RUN=Label` -> the name and what tables and figures are to call it.

    Raises ConfigurationError for an empty label, and for one of several checkpoints.
    """
    name, equals, label = typed.rpartition("=")
    if not equals or Path(typed).exists():
        return typed, None
    if not name or not label.strip():
        raise ConfigurationError(
            f"'{typed}' is not a label of a model", "write RUN=Label, for example rl-dapo=DAPO"
        )
    if name.endswith("@all"):
        raise ConfigurationError(
            f"'{typed}' gives several checkpoints one label",
            "label one of them, for example RUN@40=Label",
        )
    return name, label.strip()


def named_policies(name: str, runs: Runs, model: Model = None) -> list[Policy]:
    """Return the policy called `name`, or all checkpoints and the end of a run for `RUN@all`."""
    run_name, sign, step = name.partition("@")
    if not (sign and step == "all"):
        return [named_policy(name, runs, model)]
    run = runs.find(run_name)
    run.require_whole()
    consent = consents(model)
    checkpoints = [_checkpoint(run, str(step), consent) for step in checkpoint_steps(run)]
    return checkpoints + ([Policy.of_run(run, consent=consent)] if run.is_finished() else [])


def named_run(name: str, runs: Runs) -> Run | None:
    """Return the run that `name` or `name@step` means; None for a model that no run here made.

    The base that comes with `sage` is put in place where it is called and not there yet.
    Raises StoreError where it is neither, and CorruptFileError where the run can't be read.
    """
    check_no_gguf(name)
    if Path(name).is_dir() and run_of(Path(name)) is None:
        if is_model_folder(Path(name)):
            return None
        raise StoreError(
            f"the folder {name} contains neither a run nor a model",
            "give a run, or a Hugging Face folder with config.json and *.safetensors",
        )
    if is_hub_name(name):
        return None
    word = name.partition("@")[0]
    put_in_place(shipped_run_named(word, runs))
    run = runs.find(word)
    run.require_whole()
    return run


def named_policy(name: str, runs: Runs, model: Model = None) -> Policy:
    """A run's final model, `RUN@step`'s checkpoint, any model folder, or a model of the Hub."""
    run = named_run(name, runs)
    if run is None:
        configured = model if isinstance(model, PretrainedModel) else PretrainedModel()
        revision = configured.revision if configured.path == name else None
        section = configured.model_copy(update={"path": name, "revision": revision})
        return Policy(name, section=section)
    _, sign, step = name.partition("@")
    if sign:
        return _checkpoint(run, step, consents(model))
    if not run.is_finished():
        raise StoreError(
            f"{run.id} is {run.read().status}, not finished",
            "run its command again to resume it, or choose a checkpoint with RUN@step",
        )
    return Policy.of_run(run, consent=consents(model))


def checkpoint_steps(run: Run) -> list[int]:
    """The steps at which `run` has checkpoints, ascending; what is being written is none yet."""
    seals = run.checkpoints.glob(f"checkpoint-*/{SEAL}")
    return sorted(int(seal.parent.name.split("-")[1]) for seal in seals)


def _checkpoint(run: Run, step: str, consent: bool) -> Policy:
    steps = checkpoint_steps(run)
    if not (step.isascii() and step.isdigit()) or int(step) not in steps:
        listed = ", ".join(map(str, steps)) or "none"
        raise StoreError(
            f"{run.id} has no checkpoint at step '{step}'; it keeps {listed}",
            f"for example {run.id}@{steps[-1]}" if steps else f"use the final model, {run.id}",
        )
    folder = run.checkpoints / f"checkpoint-{step}"
    return Policy(str(folder), run, checkpoint=int(step), consent=consent)


def check_same_template(
    policy: Policy, template: PromptTemplate, *, allowed: bool, use: str
) -> None:
    """Refuse to use a model under another prompt than it was trained with, unless `allowed`.

    `use` is what is being done, such as "this evaluation".
    """
    trained = policy.template
    if trained in (None, template.hash) or allowed:
        return
    unsaid = PromptSection().model_dump(mode="json")
    before = {**unsaid, **(policy.own_settings.get("prompt") or {})}
    now = template.section.model_dump(mode="json")
    keys = [f"prompt.{key}" for key in unsaid if before[key] != now[key]]
    raise ConfigurationError(
        f"{policy.label} was trained with prompt template {trained}, and {use} uses "
        f"{template.hash} ({', '.join(keys) or 'the tokenizer'} differs): results would "
        "differ for that alone",
        "leave out the other prompt settings, or add --allow-template-mismatch",
    )
