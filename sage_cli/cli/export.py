"""`sage export`: a run's policy as an ordinary model folder, with a card that the Hub shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import yaml

from sage_cli.cli.console import Live, console, emit
from sage_cli.cli.options import Json, RunRoot
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.progress import Progress
from sage_cli.store.files import replacing_folder, write_json, write_text

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.config.schema import SageConfig
    from sage_cli.models.policy import Policy
    from sage_cli.settings.inputs import PretrainedModel, PromptSection
    from sage_cli.store.run import Run


Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The type of the written weights."""


def command(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the model to.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that is already in the folder.")
    ] = False,
    dtype: Annotated[
        Dtype, typer.Option(help="Type of the written weights; auto keeps the stored type.")
    ] = "auto",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help=(
                "Override a setting of the model: model.revision=REVISION or "
                "model.trust_remote_code=true; repeatable."
            ),
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--push",
            help="Upload the folder to the Hub as ORG/MODEL, too. A new repository is private.",
        ),
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Export a run as a Hugging Face folder, with adapters merged and a model card."""
    from sage_cli.settings.runs import default_root

    root = runs or default_root()
    if to is not None:
        require_hub_name(to)
    with Live() as live:
        exported = export(run, folder, root, live, force=force, dtype=dtype, sets=set_ or ())
        address = push(folder, to, live) if to is not None else None
    if json:
        emit({"folder": str(folder), "address": address, **vars(exported)})
        return
    how = "adapter merged" if exported.merged else "no adapter to merge"
    console.print(f"exported {exported.source} ({exported.dtype}, {how}): [bold]{folder}[/]")
    if address is not None:
        console.print(f"uploaded: {address}")


def _card(policy: Policy, config: SageConfig | None) -> str:
    """Return a policy's card; `config` is its run's configuration, or an exported model's.

    pass@k is what its run has recorded of its end.
    """
    from sage_cli.store.run import evaluations
    from sage_cli.store.run_facts import RunFacts

    run = policy.run
    base = policy.pretrained.path if policy.pretrained is not None else None
    of_hub = base is not None and not Path(base).exists()
    return model_card(
        name=policy.label,
        base=base if of_hub and (base != policy.path or run is None) else None,
        origin=_origin(policy, run, config),
        settings={**RunFacts.from_run(run).method, **_own(run)} if run is not None else {},
        prompt=_prompt(config.prompt) if config is not None else None,
        command=run.manifest.get("command") if run is not None else None,
        measured=evaluations(run) if run is not None and policy.checkpoint is None else {},
    )


def _own(run: Run) -> dict[str, str]:
    """Return a run's own judge, and its rewards as a sum where a function is among them."""
    from sage_cli.config.consent import LAUNCHER, REWARDS, own_files
    from sage_cli.settings.training import Reward, in_words

    code = {name: file for name, file in own_files(run.config).items() if name != LAUNCHER}
    if REWARDS in code:
        code[REWARDS] = in_words([Reward.model_construct(**reward) for reward in code[REWARDS]])
    return code


def _prompt(section: PromptSection) -> str:
    """Return the prompt of a question, under `chat` the user's turn alone."""
    from sage_cli.problems.template import PromptTemplate

    template = PromptTemplate(section, eos="<eos>")
    chat = section.format == "chat"
    return template.user_turn("{question}") if chat else template.render("{question}")


def _origin(policy: Policy, run: Run | None, config: SageConfig | None) -> dict[str, Any]:
    if run is None:
        return {"source": policy.place, "weights (fingerprint)": policy.fingerprint}
    manifest: Mapping[str, Any] = run.manifest
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
        "identity of the run": run.identity,
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
    from sage_cli.models import loading
    from sage_cli.models.policy import SAGE_FILE, named_policy
    from sage_cli.store.run import Runs, surroundings

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
            model = loading.merged(model)
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


ROUNDING = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.15}
"""By type, the standard deviations of the logits by which merging may change them: about four
times what it changes those of SmolLM2-135M, float32 apart."""


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
    if not changed <= ROUNDING[exported.dtype]:
        raise StoreError(
            f"merging would change the model {exported.source}: its logits change by "
            f"{changed:.2g} standard deviations, while rounding to {exported.dtype} "
            f"explains {ROUNDING[exported.dtype]:g}",
            "try --dtype float32, or use the adapter with its base model without merging",
        )


def _config(policy: Policy) -> SageConfig | None:
    """Return the configuration that a policy was made with; None if nothing says it."""
    from sage_cli.config.consent import without_consent
    from sage_cli.config.load import load
    from sage_cli.models.policy import stored_settings

    made_with = stored_settings(policy.run) if policy.run is not None else policy.own_settings
    return load(stored=without_consent(made_with)).config if made_with.get("prompt") else None


def _typed(name: str, sets: Sequence[str]) -> PretrainedModel:
    """Return how to load the model `name`. Raises ConfigurationError for other settings."""
    from sage_cli.config.consent import CONSENT
    from sage_cli.config.load import load
    from sage_cli.settings.inputs import PretrainedModel

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
    from sage_cli.models.folders import is_model_folder
    from sage_cli.store.run import run_of

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
    from sage_cli.models.folders import is_hub_name

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


NOTHING: Mapping[str, Any] = {}


def model_card(
    name: str,
    base: str | None,
    origin: Mapping[str, Any],
    settings: Mapping[str, Any] = NOTHING,
    prompt: str | None = None,
    command: str | None = None,
    measured: Mapping[str, Mapping[str, Any]] = NOTHING,
) -> str:
    """Return the text of README.md; an empty section is left out.

    `base` is a name of the Hub, if the policy grew from one; `origin` has run, hashes and seeds,
    `settings` the method's, `command` trained it. `measured` has by benchmark the figures that
    its run has recorded.
    """
    head: dict[str, Any] = {"library_name": "transformers", "tags": ["sage", "rlvr"]}
    if base is not None:
        head["base_model"] = base
    parts = (
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---",
        f"# {_inline(name)}",
        _table("What it is", origin),
        _table("Settings", settings),
        _fenced("Trained by", command),
        _measured(measured),
        _fenced("Prompt", prompt),
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _measured(measured: Mapping[str, Mapping[str, Any]]) -> str:
    if not measured:
        return "## pass@k\n\nNot measured."
    lines = ["## pass@k", ""]
    for name, figures in measured.items():
        curve = {key: value for key, value in figures.items() if key.startswith("pass@")}
        how = (f"{key} {value}" for key, value in figures.items() if key not in (*curve, "content"))
        lines += [f"{_inline(name)}: {_inline(', '.join(how))}", "", "| k | pass@k |", "|---|---|"]
        lines += [f"| {key.removeprefix('pass@')} | {value:.4f} |" for key, value in curve.items()]
        lines.append("")
    return "\n".join(lines).rstrip()


def _table(title: str, values: Mapping[str, Any]) -> str:
    rows = [f"| {_inline(key)} | {_inline(value)} |" for key, value in values.items() if value]
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *rows]) if rows else ""


def _fenced(title: str, text: str | None) -> str:
    """Return a text as a block of code, whose fence is longer than any in the text."""
    if not text:
        return ""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"## {title}\n\n{fence}\n{text}\n{fence}"


def _inline(value: object) -> str:
    """Return a value in one line that ends no cell and opens no element."""
    text = " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;")
