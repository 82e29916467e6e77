"""A policy written as an ordinary model folder, which the Hub takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.consent import CONSENT, LAUNCHER, REWARDS, own_files, without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models import loading
from sage_cli.models.folders import is_model_folder
from sage_cli.models.hub_cache import is_hub_name
from sage_cli.models.model_card import model_card
from sage_cli.models.policy import SAGE_FILE, Policy, named_policy, stored_settings
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.settings.model import PretrainedModel
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rewards import Reward, rewards_in_words
from sage_cli.store.evaluations import evaluations
from sage_cli.store.files import replacing_folder, write_text
from sage_cli.store.json_files import write_json
from sage_cli.store.run import Run, Runs, run_of
from sage_cli.store.run_facts import RunFacts
from sage_cli.store.surroundings import surroundings

if TYPE_CHECKING:
    from torch import Tensor
_ROUNDING = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.15}
"""By type, the standard deviations of the logits by which merging may change them: about four
times what it changes those of SmolLM2-135M, float32 apart."""


def _card(policy: Policy, config: SageConfig | None) -> str:
    """Return a policy's card; `config` is its run's configuration, or an exported model's.

    pass@k is what its run has recorded of its end.
    """
    run = policy.run
    base = policy.pretrained.path if policy.pretrained is not None else None
    of_hub = base is not None and not Path(base).exists()
    return model_card(
        name=policy.label,
        base=base if of_hub and (base != policy.path or run is None) else None,
        origin=_origin(policy, run, config),
        settings={**RunFacts.from_run(run).method, **_own(run)} if run is not None else {},
        prompt=_prompt(config.prompt) if config is not None else None,
        command=run.read_manifest().get("command") if run is not None else None,
        measured=evaluations(run) if run is not None and policy.checkpoint is None else {},
    )


def _own(run: Run) -> dict[str, str]:
    """Return a run's own judge, and its rewards as a sum where a function is among them."""
    code = {name: file for name, file in own_files(run.read_config()).items() if name != LAUNCHER}
    if REWARDS in code:
        code[REWARDS] = rewards_in_words(
            [Reward.model_construct(**reward) for reward in code[REWARDS]]
        )
    return code


def _prompt(section: PromptSection) -> str:
    """Return the prompt of a question, under `chat` the user's turn alone."""
    template = PromptTemplate(section, eos="<eos>")
    chat = section.format == "chat"
    return template.user_turn("{question}") if chat else template.render("{question}")


def _origin(policy: Policy, run: Run | None, config: SageConfig | None) -> dict[str, Any]:
    if run is None:
        return {"source": policy.place, "weights (fingerprint)": policy.fingerprint}
    manifest: Mapping[str, Any] = run.read_manifest()
    data = manifest.get("data")
    if data is None and config is not None:
        data = config.data.rl.name if manifest.get("kind") == "rl" else config.data.sft.name
    return {
        "run": policy.word,
        "trained by": {"rl": "RL", "sft": "SFT"}.get(str(manifest.get("kind")), "–"),
        "initial policy": manifest.get("parent"),
        "weights of the initial policy (fingerprint)": manifest.get("parent_weights"),
        "data": ", ".join(data) if isinstance(data, list) else data,
        "training seed": str(manifest.get("seed")),
        "identity of the run": run.read_identity(),
        "weights (fingerprint)": policy.fingerprint,
        "prompt template (hash)": policy.template,
        "commit of sage": manifest.get("commit"),
        "versions": ", ".join(
            f"{name} {version}" for name, version in (manifest.get("versions") or {}).items()
        ),
    }


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
) -> Exported:
    """Write the policy called `name` to `folder`: merged weights, tokenizer, `sage.json`, a card.

    `name` is a run below `root`, RUN@step, a model folder or a name of the Hub. `dtype` is the
    type in which weights are merged and written; "auto" keeps the stored one, in which an adapter
    of a bfloat16 model is rounded once more. `sets` are settings as they are typed. Raises
    StoreError if `folder` holds anything; with `force` a model there is replaced, anything else
    never. Raises it too where merging makes another model.
    """
    policy = named_policy(name, Runs(root), _typed(name, sets))
    policy.require_weights()
    check_destination(folder, policy, force)
    card = _card(policy, _config(policy))
    with progress.doing(f"loading {policy.label}"):
        tokenizer, model = policy.tokenizer, policy.model(dtype=dtype)
    adapted = hasattr(model, "peft_config")
    if adapted:
        with progress.doing("merging the adapter"):
            before = _logits(model)
            model = loading.merge_adapter(model)
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
        if adapted:
            del model
            consent = policy.loading["trust_remote_code"]
            model = loading.load_model(temporary, dtype=dtype, trust_remote_code=consent)
            _require_same_logits(before, _logits(model), exported)
        write_json(temporary / SAGE_FILE, asdict(exported))
        write_text(temporary / "README.md", card)
    return exported


def _logits(model: Any) -> Tensor:
    """Return the logits (T, V) of sixteen tokens from all over the vocabulary."""
    import torch

    entries = model.config.get_text_config().vocab_size
    ids_1T = torch.linspace(0, entries - 1, 16).long()[None]
    with torch.no_grad():
        logits_1TV: Tensor = model.eval()(input_ids=ids_1T).logits
    return logits_1TV[0].float()


def _require_same_logits(before: Tensor, after: Tensor, exported: Exported) -> None:
    """Raise StoreError where a merged model says other things than its adapter did."""
    changed = float((after - before).square().mean().sqrt() / before.std())
    if not changed <= _ROUNDING[exported.dtype]:
        raise StoreError(
            f"merging would change the model {exported.source}: its logits change by "
            f"{changed:.2g} standard deviations, while rounding to {exported.dtype} "
            f"explains {_ROUNDING[exported.dtype]:g}",
            "try --dtype float32, or use the adapter with its base model without merging",
        )


def _config(policy: Policy) -> SageConfig | None:
    """Return the configuration that a policy was made with; None if nothing says it."""
    made_with = stored_settings(policy.run) if policy.run is not None else policy.own_settings
    return load(stored=without_consent(made_with)).config if made_with.get("prompt") else None


def _typed(name: str, sets: Sequence[str]) -> PretrainedModel:
    """Return how to load the model `name`. Raises ConfigurationError for other settings."""
    accepted = ("model.revision", CONSENT)
    for text in sets:
        if text.partition("=")[0].strip() not in accepted:
            raise ConfigurationError(
                f"--set {text} has no effect on an export",
                f"an export accepts {' and '.join(accepted)}",
            )
    model = load(flags={"model": {"kind": "pretrained", "path": name}}, sets=sets).config.model
    assert isinstance(model, PretrainedModel)  # as the flag says
    return model


def check_destination(folder: Path, policy: Policy, force: bool) -> None:
    """Raise StoreError if `folder` holds anything but, with `force`, another model."""
    here, source = folder.resolve(), Path(policy.path).resolve()
    if here == source or here in source.parents or source in here.parents:
        raise StoreError(
            f"{folder} and the model to export, {policy.path}, contain one another",
            "choose a folder elsewhere",
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file", "choose a folder")
    if not any(folder.iterdir()):
        return
    if run_of(folder) is not None:
        raise StoreError(f"{folder} belongs to a run", "choose a folder elsewhere")
    if not is_model_folder(folder):
        raise StoreError(
            f"{folder} is not empty and does not contain a model", "choose a new or empty folder"
        )
    if not force:
        raise StoreError(
            f"{folder} already contains a model",
            "choose another folder, or replace the model with --force",
        )


def require_hub_name(name: str) -> None:
    """Raise ConfigurationError if `name` is no ORG/MODEL."""
    if not is_hub_name(name):
        raise ConfigurationError(
            f"--push {name}: the name of a Hub model has the form ORG/MODEL",
            "for example --push me/policy",
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
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(
            f"{folder} was written, but uploading it as {name} failed: {reason}",
            f"`hf auth login`, then `hf upload {name} {folder}`",
        ) from None
    return str(address)
