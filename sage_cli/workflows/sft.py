"""`sage sft`: from demonstrations to the base that RL starts from, trained once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.config.labels import base_label
from sage_cli.config.model import PretrainedModel, PromptSection, ScratchModel
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.models.load import attach_lora, fingerprint, load_section, load_tokenizer
from sage_cli.models.scratch import build_scratch, build_tokenizer
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.identity import content_of, identity_of
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Run, Runs
from sage_cli.training.checkpoints import refuse_foreign
from sage_cli.training.sft import Example, train_sft
from sage_cli.workflows.watch import watched

COSMETIC = ("save_every",)
SHOWN = {"loss": "loss", "mean_token_accuracy": "accuracy"}


def sft(config: SageConfig, progress: Progress, *, fresh: bool = False) -> Run:
    """Train the base of `config`, or go on with it, or find it finished; returns its run."""
    if not config.sft.enabled:
        raise ConfigurationError(
            "sft.enabled is false: this configuration takes its model as it is",
            "`sage rl` starts from the model itself; or use --set sft.enabled=true",
        )
    require_mirrors(config.tracking)
    tokenizer = None if isinstance(config.model, ScratchModel) else _tokenizer(config.model)
    demonstrations = _demonstrations(config, tokenizer)
    run = sft_run(config, demonstrations)
    if fresh:
        run.clear()
    if run.finished:
        progress.say(f"base [bold]{run.id}[/] is trained already")
        return run
    refuse_foreign(run.checkpoints)
    model, tokenizer = _start(config, tokenizer, demonstrations)
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    examples = [
        Example(
            template.render(shown.question),
            template.complete(shown.working, shown.answer),
            shown.loss,
        )
        for shown in demonstrations
    ]
    settings = config.model_dump(mode="json")
    record = run.recording(
        settings, kind="sft", parent=None, seed=config.sft.seed, template=template.hash
    )
    with record, watched(config, run, "sft", progress, SHOWN) as on_step:
        train_sft(config.sft, model, tokenizer, examples, run, on_step)
    return run


def sft_run(config: SageConfig, demonstrations: Sequence[Demonstration]) -> Run:
    """Where the base of `config` is or will be: told by model, prompt, SFT settings and data."""
    settings = config.model_dump(mode="json")
    model = config.model
    if isinstance(model, ScratchModel):
        # random weights are always trained in full: the tuning is RL's
        start = model.model_dump(exclude={"tuning", "lora"})
    else:
        start = model.model_dump(exclude={"path"})
        start["weights"] = fingerprint(model.path, model.revision)
    determinants = {
        "model": start,
        "prompt": settings["prompt"],
        "sft": {key: value for key, value in settings["sft"].items() if key not in COSMETIC},
        "data": content_of(demonstrations),
    }
    return Runs(config.run.root).at("sft", base_label(config), identity_of("sft", determinants))


def _demonstrations(config: SageConfig, tokenizer: Any) -> list[Demonstration]:
    """The demonstrations, long prompts left out where there is a tokenizer to measure them."""
    if tokenizer is None:
        return load_demonstrations(config)
    return load_demonstrations(config, lambda text: len(tokenizer(text)["input_ids"]))


def _tokenizer(section: PretrainedModel) -> Any:
    return load_tokenizer(
        section.path, revision=section.revision, trust_remote_code=section.trust_remote_code
    )


def _start(
    config: SageConfig, tokenizer: Any, demonstrations: Sequence[Demonstration]
) -> tuple[Any, Any]:
    """The untrained policy and its tokenizer."""
    section = config.model
    if isinstance(section, ScratchModel):
        texts = (f"{shown.question}\n{shown.working}" for shown in demonstrations)
        tokenizer = build_tokenizer(section, tags(config.prompt), texts)
        return build_scratch(section, tokenizer), tokenizer
    model = load_section(section)
    return (attach_lora(model, section.lora) if section.tuning == "lora" else model), tokenizer


def tags(prompt: PromptSection) -> tuple[str, ...]:
    """The tags that a tokenizer of ours holds as single tokens."""
    return (
        prompt.reasoning_open,
        prompt.reasoning_close,
        prompt.answer_open,
        prompt.answer_close,
    )
