"""`sage export`: a run's policy becomes a model folder that stands on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sage_cli.commands.stored.lm_eval_task import lm_eval_task
from sage_cli.commands.stored.model_card import card_facts
from sage_cli.config.consent import CONSENT, JUDGE, without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.folders import is_model_folder
from sage_cli.models.hub import is_hub_name
from sage_cli.models.policies.names import named_policy
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import SAGE_FILE, stored_settings
from sage_cli.progress import Progress
from sage_cli.reports.model_card import model_card
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.atomic import replacing_folder, write_json, write_text
from sage_cli.store.runs.run import Runs, run_of
from sage_cli.store.surroundings import surroundings

TAKEN = ("model.revision", CONSENT, JUDGE)
"""The settings by which a model is loaded, and by whose grades its card has a curve."""


@dataclass(frozen=True)
class Exported:
    """The `sage.json` of an exported model: its origin and how to prompt it.

    `fingerprint` is the source's; `merged` is True if a LoRA adapter was merged. `template`,
    `prompt` and `sampling` are None for a model without a run.
    """

    source: str
    run: str | None
    checkpoint: int | None
    fingerprint: str
    merged: bool
    dtype: str
    template: str | None
    prompt: dict[str, Any] | None
    sampling: dict[str, Any] | None
    versions: dict[str, str]


def export(
    name: str,
    folder: Path,
    root: Path,
    progress: Progress,
    *,
    force: bool = False,
    dtype: str = "auto",
    sets: Sequence[str] = (),
    lm_eval: bool = False,
    benchmark: str | None = None,
) -> Exported:
    """Write the policy called `name` to `folder`: merged weights, tokenizer, `sage.json`, a card.

    `name` is a run below `root`, RUN@step, a model folder or a name of the Hub. `dtype` is the
    type in which weights are merged and written; "auto" keeps the stored one, in which an adapter
    of a bfloat16 model is rounded once more. `lm_eval` adds a task of `benchmark`, by default of
    the run's own, which is also that of the card's curve. `sets` are settings of TAKEN as they are
    typed. Raises StoreError if `folder` holds anything;
    with `force` a model there is replaced, anything else never.
    """
    model, judge = _typed(name, sets)
    policy = named_policy(name, Runs(root), model)
    policy.require_weights()
    check_destination(folder, policy, force)
    config = _config(policy, root, benchmark, judge)
    if lm_eval and config is None:
        raise ConfigurationError(
            f"nothing says how {policy.label} is prompted, which --lm-eval writes down",
            "export a run, or a model that `sage export` wrote",
        )
    task = lm_eval_task(policy, config) if lm_eval and config is not None else None
    with progress.doing("reading what was measured"):
        card = model_card(card_facts(policy, config, progress, task.name if task else None))
    with progress.doing(f"loading {policy.label}"):
        tokenizer, model = policy.tokenizer(), policy.model(dtype=dtype)
    adapted = hasattr(model, "peft_config")
    if adapted:
        with progress.doing("merging the adapter"):
            model = model.merge_and_unload(safe_merge=True)
    with progress.doing(f"hashing the weights of {policy.label}"):
        fingerprint = policy.fingerprint
    run = policy.run
    settings = {"prompt": None, "sampling": None, **policy.own_settings}
    exported = Exported(
        source=policy.label,
        run=run.id if run else None,
        checkpoint=policy.checkpoint,
        fingerprint=fingerprint,
        merged=adapted,
        dtype=str(model.dtype).removeprefix("torch."),
        template=policy.template,
        **settings,
        versions=surroundings()["versions"],
    )
    with progress.doing(f"writing {folder}"), replacing_folder(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        write_json(temporary / SAGE_FILE, asdict(exported))
        write_text(temporary / "README.md", card)
        if task is not None:
            task.write(temporary)
    return exported


def _config(
    policy: Policy, root: Path, benchmark: str | None, judge: str | None
) -> SageConfig | None:
    """Return the configuration under which a policy is measured; None if nothing says it."""
    run = policy.run
    made_with = stored_settings(run) if run is not None else policy.own_settings
    if not made_with.get("prompt"):
        return None
    stored = without_consent(made_with)
    flags = {
        "evaluation": {"benchmark": benchmark},
        "grading": {"judge": judge},
        "run": {"root": root},
    }
    return load(flags=flags, stored=stored).config


def _typed(name: str, sets: Sequence[str]) -> tuple[PretrainedModel, str | None]:
    """Return how to load the model `name`, and a judge; ConfigurationError for other settings."""
    for text in sets:
        if text.partition("=")[0].strip() not in TAKEN:
            raise ConfigurationError(
                f"--set {text} has no effect on an export",
                f"it takes {', '.join(TAKEN[:-1])} and {TAKEN[-1]}",
            )
    config = load(flags={"model": {"kind": "pretrained", "path": name}}, sets=sets).config
    assert isinstance(config.model, PretrainedModel)  # as the flag says
    return config.model, config.grading.judge


def check_destination(folder: Path, policy: Policy, force: bool) -> None:
    """Raise StoreError if `folder` holds anything but, with `force`, another model."""
    here, source = folder.resolve(), Path(policy.path).resolve()
    if here == source or here in source.parents or source in here.parents:
        raise StoreError(
            f"{folder} and the model to export, {policy.path}, are inside one another",
            "name a folder elsewhere",
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file", "name a folder")
    if not any(folder.iterdir()):
        return
    if run_of(folder) is not None:
        raise StoreError(f"{folder} belongs to a run", "name a folder elsewhere")
    if not is_model_folder(folder):
        raise StoreError(f"{folder} is not empty and holds no model", "name a new or empty folder")
    if not force:
        raise StoreError(
            f"{folder} holds a model already", "name another folder, or replace it with --force"
        )


def require_hub_name(name: str) -> None:
    """Raise ConfigurationError if `name` is no ORG/MODEL."""
    if not is_hub_name(name):
        raise ConfigurationError(
            f"--push {name}: a model of the Hub is called ORG/MODEL", "for example --push me/policy"
        )


def push(folder: Path, name: str, progress: Progress) -> str:
    """Upload `folder` as the model `name`, private if it is new, and return its address.

    Raises StoreError with the Hub's answer if it refuses or can't be reached.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        with progress.doing(f"uploading {folder} to {name}"):
            address = api.create_repo(name, private=True, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # the Hub's clients fail in a dozen unrelated classes
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(
            f"{folder} is written, and the Hub did not take it as {name}: {said}",
            f"`hf auth login`, then `hf upload {name} {folder}`",
        ) from None
    return str(address)
