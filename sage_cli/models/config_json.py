"""What a model's config.json says, read without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.models.folders import adapter_base, is_adapter, model_files, read_json
from sage_cli.settings.model import PretrainedModel, ScratchModel

Facts = Mapping[str, Any]
_SHAPE = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)


def stored_dtype(folder: Path) -> str | None:
    """The type in which a folder's weights are stored, such as `bfloat16`; None where it doesn't
    say.

    An adapter is computed in its base's type.
    """
    if is_adapter(folder):
        return stored_dtype(model_files(adapter_base(folder)))
    config = read_json(folder / "config.json")
    dtype = config.get("dtype") or config.get("torch_dtype")
    return str(dtype) if dtype else None


def shape(config: Mapping[str, Any]) -> Facts:
    """Return architecture, sizes and vocabulary, of the content of a config.json."""
    text = text_part(config)
    return {name: text[name] for name in _SHAPE if name in text}


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a config.json with what it says of the text model on top."""
    return {**config, **(config.get("text_config") or {})}


def model_config(path: str, revision: str | None = None) -> Mapping[str, Any]:
    """Return what a model's config.json, an adapter's base's, says of the text model.

    Empty where it isn't here.
    """
    try:
        folder = model_files(path, revision)
    except DataError:
        return {}
    if is_adapter(folder):
        return model_config(adapter_base(folder), revision)
    return text_part(read_json(folder / "config.json"))


def facts_of_folder(folder: Path) -> Facts:
    """Return the facts of the files in `folder`: a model's shape, or the base of an adapter."""
    if is_adapter(folder):
        return facts_of_path(adapter_base(folder))
    return shape(read_json(folder / "config.json"))


def facts_of_path(path: str) -> Facts:
    """A model by its place: a folder and its shape, or a name of the Hub, which is all there is."""
    if Path(path).is_dir():
        return {"folder": str(Path(path).resolve()), **facts_of_folder(Path(path))}
    return {"kind": "pretrained", "path": path}


def facts_of_section(section: PretrainedModel | ScratchModel) -> Facts:
    """Return the facts of a configured model; its tuning and its seed don't matter."""
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


def model_differences(theirs: Facts, ours: Facts) -> list[str]:
    """`hidden_size 16 and 96` for everything that both say and that isn't the same."""
    return [
        f"{name} {theirs[name]} and {ours[name]}"
        for name in theirs
        if name in ours and theirs[name] != ours[name]
    ]
