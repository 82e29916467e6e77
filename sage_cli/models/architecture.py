"""Facts of a model's architecture, by which two models are compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.models.folders import adapter_base, is_adapter, read_json
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel

Facts = Mapping[str, Any]
_SHAPE = (
    "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "vocab_size",
)  # fmt: skip


def shape(config: Mapping[str, Any]) -> Facts:
    """Architecture, sizes and vocabulary, of the content of a config.json."""
    return {name: config[name] for name in _SHAPE if name in config}


def facts_of_folder(folder: Path) -> Facts:
    """The facts of the files in `folder`: a model's shape, or the base of an adapter."""
    if is_adapter(folder):
        return facts_of_path(adapter_base(folder))
    return shape(read_json(folder / "config.json"))


def facts_of_path(path: str) -> Facts:
    """A model by its place: a folder and its shape, or a name of the Hub, which is all there is."""
    if Path(path).is_dir():
        return {"folder": str(Path(path).resolve()), **facts_of_folder(Path(path))}
    return {"kind": "pretrained", "path": path}


def facts_of_section(section: PretrainedModel | ScratchModel) -> Facts:
    """The facts of a configured model; its tuning and its seed don't matter."""
    if isinstance(section, PretrainedModel):
        return {"kind": "pretrained", **facts_of_path(section.path), "revision": section.revision}
    characters = section.tokenizer == "characters"
    return {
        "kind": "scratch",
        "tokenizer": section.tokenizer if characters else f"bpe of {section.vocabulary}",
        "model_type": "qwen2",
        "hidden_size": section.hidden,
        "intermediate_size": section.feed_forward,
        "num_hidden_layers": section.layers,
        "num_attention_heads": section.heads,
    }


def differences(theirs: Facts, ours: Facts) -> list[str]:
    """`hidden_size 16 and 96` for everything that both say and that isn't the same."""
    return [
        f"{name} {theirs[name]} and {ours[name]}"
        for name in theirs
        if name in ours and theirs[name] != ours[name]
    ]
