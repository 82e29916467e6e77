"""Model folders: whether they are whole, their fingerprints, their adapters."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sage_cli.config.consent import HOW_TO_CONSENT
from sage_cli.errors import DataError
from sage_cli.file_hash import file_hash
from sage_cli.json_value import json_value
from sage_cli.models.hub_cache import cached_files, pinned_revision

ADAPTER_FILE, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
WEIGHTS_FILE = "weights-left-out.json"
"""Stands for the weights of a run of imported samples, and holds its fingerprint."""
_BASE = "base_model_name_or_path"
_CONTENT = ("*.safetensors", "config.json", "tokenizer.json")


def is_model_folder(folder: Path) -> bool:
    """Return True if `folder` looks like a model or an adapter in Hugging Face's format."""
    return any((folder / name).is_file() for name in ("config.json", ADAPTER_FILE))


def require_model(path: str) -> None:
    """Raise DataError where `path` is a folder without a model, before any library is loaded."""
    require_folder(path)
    folder = Path(path)
    if folder.is_dir() and not is_model_folder(folder):
        raise DataError(
            f"no model can be loaded from {path}: it contains neither config.json nor "
            f"{ADAPTER_FILE}",
            "give a Hugging Face folder with config.json and *.safetensors, or a Hub model",
        )


def require_whole_weights(path: str | Path) -> None:
    """Raise DataError where a local folder's weights are missing or cut off, by their headers.

    Its base's too, where it is an adapter.
    """
    folder = Path(path)
    if not is_model_folder(folder) or without_weights(folder) is not None:
        return
    files = {file.name: file for file in sorted(folder.glob("*.safetensors"))}
    indexed = read_json(folder / "model.safetensors.index.json").get("weight_map", {})
    if missing := sorted({*indexed.values()} - {*files}) if files else ["*.safetensors"]:
        other = "; of *.bin none is read" if any(folder.glob("*.bin")) else ""
        raise DataError(
            f"{folder} has no {', '.join(missing)}{other}",
            "download the model again, or save it with Transformers' save_pretrained, "
            "which writes safetensors",
        )
    for file in files.values():
        size, whole = file.stat().st_size, _whole_size(file)
        if size != whole:
            rest = "ends within its header" if whole is None else f"should have {whole:,}"
            raise DataError(f"{file} has {size:,} bytes and {rest}", "download or copy it again")
    if is_adapter(folder):
        require_whole_weights(adapter_base(folder))


def _header(file: Path) -> tuple[int, Any]:
    """Return the bytes before the tensors of a safetensors file, and what they say of each.

    Raises OSError, and ValueError where the file ends before or holds no JSON there.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if 8 + length > file.stat().st_size:
            raise ValueError("the file ends within its header")
        return 8 + length, json_value(opened.read(length))


def _whole_size(file: Path) -> int | None:
    """Return the bytes that a safetensors file has by its header; None where that is none."""
    try:
        begin, tensors = _header(file)
        ends = [entry["data_offsets"][1] for key, entry in tensors.items() if key[:2] != "__"]
        return begin + max(ends, default=0)
    except (ValueError, AttributeError, KeyError, TypeError, IndexError):
        return None


def require_folder(path: str | Path) -> None:
    """Raise DataError where a local folder is missing, before the Hub is asked for that name."""
    text = str(path)
    check_no_gguf(text)
    looks_local = text.startswith((".", "/", "~")) or text.count("/") > 1
    if looks_local and not Path(text).is_dir():
        raise DataError(f"there is no folder {text}", "give a model folder or a run's ID")


def check_no_gguf(path: str) -> None:
    """Raise DataError for a GGUF file, and for a folder or repository of such files alone."""
    folder = Path(path)
    if is_model_folder(folder):
        return
    files = sorted(folder.glob("*.gguf"))
    if files or path.lower().endswith("gguf"):
        file = files[0] if files else path if path.lower().endswith(".gguf") else "FILE.gguf"
        raise DataError(
            f"{path} contains a model as llama.cpp stores it (GGUF)",
            "make a folder of it: `pip install gguf`, then "
            f"`{shlex.join(['python', '-m', 'sage_cli.models.from_gguf', str(file), 'FOLDER'])}`",
        )


def is_adapter(folder: Path) -> bool:
    """Return True if `folder` holds a LoRA adapter rather than a whole model."""
    return (folder / ADAPTER_FILE).is_file()


def fingerprint(path: str | Path, revision: str | None = None) -> str:
    """Return sixteen hex digits of a model's content: weights, configuration, tokenizer, ends.

    An adapter's includes its base's, wherever that lies. A Hub model has that of its name and
    commit, or of its name and `revision` if it can't be reached.
    """
    folder = Path(path)
    if not folder.is_dir():
        pinned = pinned_revision(str(path), revision)
        name = str(path) if pinned is None else f"{path}@{pinned}"
        return hashlib.sha256(name.encode()).hexdigest()[:16]
    if (left_out := without_weights(folder)) is not None:
        return left_out
    digest = hashlib.sha256()
    if is_adapter(folder):
        base = fingerprint(adapter_base(folder), revision)
        settings = {**_adapter_settings(folder), _BASE: base}
        digest.update(json.dumps(settings, sort_keys=True).encode())
    for file in sorted(file for pattern in _CONTENT for file in folder.glob(pattern)):
        digest.update(file.name.encode())
        digest.update(bytes.fromhex(file_hash(file)))
    ends = read_json(folder / "generation_config.json").get("eos_token_id")
    if ends is not None:
        digest.update(json.dumps(ends).encode())
    return digest.hexdigest()[:16]


def without_weights(folder: Path) -> str | None:
    """Return the fingerprint of a run of imported samples; None where `folder` has weights."""
    if any(folder.glob("*.safetensors")):
        return None
    noted = read_json(folder / WEIGHTS_FILE).get("fingerprint")
    return noted if isinstance(noted, str) else None


def adapter_base(folder: Path) -> str:
    """Return the model that the adapter in `folder` was made for: a folder, or a name of the Hub.

    A run's model that isn't where the adapter says is looked for beside the adapter's own run:
    runs move together. Raises DataError when the adapter names none.
    """
    recorded = Path(str(_adapter_settings(folder)[_BASE]))
    if recorded.name == "model" and not recorded.is_dir():
        for above in folder.resolve().parents:
            moved = above / recorded.parent.name / recorded.name
            if moved.is_dir():
                return str(moved)
    return str(recorded)


def embedding_rows(adapter: Path) -> int | None:
    """Return the vocabulary of the embedding or head that an adapter brings; None without one."""
    try:
        _, tensors = _header(adapter / ADAPTER_WEIGHTS)
    except (OSError, ValueError):
        return None
    layers = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "lm_head.weight")
    rows = (tensor["shape"][0] for name, tensor in tensors.items() if name.endswith(layers))
    return next(rows, None)


def model_files(path: str, revision: str | None = None) -> Path:
    """Return the folder with a model's small files: its own, or where the cache has a Hub model's.

    Raises DataError where there is neither.
    """
    require_folder(path)
    return Path(path) if Path(path).is_dir() else cached_files(path, revision)


def read_json(file: Path) -> dict[str, Any]:
    """The object in `file`; empty where there is none or it can't be read: loading will say why."""
    try:
        value = json_value(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _adapter_settings(folder: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json_value((folder / ADAPTER_FILE).read_bytes())
        return {_BASE: settings.pop(_BASE), **settings}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DataError(
            f"{folder / ADAPTER_FILE} names no base model: {str(error) or type(error).__name__}",
            "export the adapter again, or choose another model",
        ) from error


@contextmanager
def load_explained(kind: str, path: str | Path, expected: str) -> Iterator[None]:
    """Raise DataError where loading fails. Its next step may be to consent to the model's code."""
    try:
        yield
    except Exception as error:  # loaders fail in a dozen unrelated classes
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
        consent = HOW_TO_CONSENT if "trust_remote_code" in str(error) else None
        raise DataError(
            f"no {kind} can be loaded from {path}: {cause}",
            consent or f"give {expected}, or a Hub model",
        ) from error
