"""Model folders and the Hub's cache: small files, fingerprints, adapters, facts without loading.

The cached commit of a Hub model's branch is used until it is fetched again: a model doesn't change
between two commands because its branch has moved on.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sage_cli.config.consent import HOW_TO_CONSENT
from sage_cli.errors import AbsentModelError, DataError
from sage_cli.file_hash import file_hash
from sage_cli.json_value import json_value
from sage_cli.settings.model import PretrainedModel, ScratchModel

_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_EVERY_MODEL_HAS_ONE = ("config.json", "adapter_config.json")
_SMALL_FILES = ["*.json", "*.jinja"]


def is_hub_name(name: str) -> bool:
    """Return True if `name` reads as ORG/MODEL and can't be meant as a folder here."""
    return bool(_NAME.fullmatch(name)) and not Path(name.partition("/")[0]).is_dir()


def cached_files(name: str, revision: str | None) -> Path:
    """Return the cached folder of the commit that is meant, with at least the model's small files.

    They are fetched unless the cache holds them. Raises AbsentModelError where there is no such
    model, or the Hub can't be reached.
    """
    snapshot = _snapshot(name, revision)
    if isinstance(snapshot, Path):
        return snapshot
    raise AbsentModelError(
        f"'{name}' is not a folder here, and could not be read from the Hub: {snapshot}",
        "check the name; download it on a machine with a network (`hf download "
        f"{name}`), or give the folder of a copy",
    )


def whole_model(name: str, revision: str | None) -> Path:
    """The cached folder of the commit that is meant, with all that loading takes; else fetched.

    Raises AbsentModelError as `cached_files` does.
    """
    from huggingface_hub import snapshot_download

    files = cached_files(name, revision)
    if any(files.glob("*.safetensors")):
        return files
    return Path(snapshot_download(name, revision=files.name, ignore_patterns=["*.bin", "*.pth"]))


def is_cached(name: str, revision: str | None = None) -> bool:
    """Return True if the cache holds a Hub model with its weights, without asking the Hub."""
    from huggingface_hub import try_to_load_from_cache

    for file in _EVERY_MODEL_HAS_ONE:
        cached = try_to_load_from_cache(name, file, revision=revision)
        if isinstance(cached, str):
            return any(Path(cached).parent.glob("*.safetensors"))
    return False


@cache
def _snapshot(name: str, revision: str | None) -> Path | str:
    """Return the folder, or why there is none: the Hub is asked once a process at most."""
    from huggingface_hub import constants

    cache_folder = Path(constants.HF_HUB_CACHE) / ("models--" + name.replace("/", "--"))
    if constants.HF_HUB_OFFLINE and not cache_folder.is_dir():
        return "it isn't in the local cache, and HF_HUB_OFFLINE is set"  # no client is needed
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    try:
        for file in _EVERY_MODEL_HAS_ONE:
            cached = try_to_load_from_cache(name, file, revision=revision)
            if isinstance(cached, str):
                return Path(cached).parent
        return Path(snapshot_download(name, revision=revision, allow_patterns=_SMALL_FILES))
    except Exception as error:  # the Hub's clients fail in a dozen unrelated classes
        return (str(error).strip().splitlines() or [type(error).__name__])[0]


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


def model_files(path: str, revision: str | None = None) -> Path:
    """Return the folder with a model's small files: its own, or where the cache has a Hub model's.

    Raises DataError where there is neither.
    """
    require_folder(path)
    return Path(path) if Path(path).is_dir() else cached_files(path, revision)


def pinned_revision(path: str, revision: str | None) -> str | None:
    """The commit of a Hub model, as far as cache or Hub tell; `revision` itself for a folder."""
    snapshot = None if Path(path).is_dir() else cached_snapshot(path, revision)
    return revision if snapshot is None else snapshot.name


def cached_snapshot(name: str, revision: str | None) -> Path | None:
    """Return the cached folder of a Hub model's commit; None if it can't be had."""
    snapshot = _snapshot(name, revision)
    return snapshot if isinstance(snapshot, Path) else None


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


@dataclass(frozen=True)
class TokenizerFacts:
    """What a prompt template asks of a tokenizer, and where it was read.

    `begins_with_bos` says whether the tokenizer puts `bos_token` before every text.
    """

    eos_token: str | None
    chat_template: Any
    name_or_path: str = ""
    bos_token: str | None = None
    begins_with_bos: bool = False

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, str]], *, tokenize: bool, **given: Any
    ) -> str:
        """Return a conversation as text, as Transformers renders it."""
        assert not tokenize
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise TemplateError(message)

        def as_json(value: Any, **_: Any) -> str:
            return json.dumps(value, ensure_ascii=False)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = as_json
        named = self.chat_template
        template = named["default"] if isinstance(named, dict) else named
        # marks of what a training learns from, unknown to Jinja itself
        template = re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", template)
        tokens = {"bos_token": self.bos_token, "eos_token": self.eos_token}
        given |= {name: token for name, token in tokens.items() if token is not None}
        return environment.from_string(template).render(
            messages=conversation, raise_exception=refuse, **given
        )


def tokenizer_facts(folder: Path) -> TokenizerFacts | None:
    """Return the facts of the tokenizer in `folder`; None where its files don't tell."""
    config = read_json(folder / "tokenizer_config.json")
    if not config:
        return None
    ends, bos = _text(config.get("eos_token")), _text(config.get("bos_token"))
    begins = bos is not None and bool(config.get("add_bos_token") or _first_added(folder) == bos)
    return TokenizerFacts(ends, _chat_template(folder, config), str(folder), bos, begins)


def stored_tokens(folder: Path) -> tuple[dict[str, int], set[str], str | None] | None:
    """Return a tokenizer's ids by token, those that only templates write, and its end ('': unsaid).

    None where the files in `folder` don't tell.
    """
    config = read_json(folder / "tokenizer_config.json")
    stored = read_json(folder / "tokenizer.json")
    ids = (stored.get("model") or {}).get("vocab")
    if not config or not ids or not isinstance(ids, dict):
        return None
    added = stored.get("added_tokens") or []
    ids |= {token["content"]: token["id"] for token in added}
    named = [_text(config.get(f"{name}_token")) for name in ("bos", "eos", "unk", "pad")]
    for token in filter(None, named):  # Transformers adds those that the vocabulary lacks
        ids.setdefault(token, max(ids.values()) + 1)
    special = {token["content"] for token in added if token.get("special")}.difference(named)
    # without an entry some classes have an end of their own
    return ids, special, named[1] if "eos_token" in config else ""


def _first_added(folder: Path) -> str | None:
    """Return the special token that tokenizer.json has put before a text; None without one."""
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        # the vocabulary behind it has some hundred thousand entries
        _, _, rest = text.partition('"post_processor":')
        processor = json.JSONDecoder().raw_decode(rest.lstrip())[0] or {}
    except (OSError, ValueError):
        return None
    for step in processor.get("processors", [processor]):
        if "cls" in step:
            return str(step["cls"][0])
        for piece in step.get("single", [])[:1]:
            return (piece.get("SpecialToken") or {}).get("id")
    return None


def _chat_template(folder: Path, config: dict[str, Any]) -> Any:
    """Return the template that Transformers takes: a file of its own before the entry."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        return {entry["name"]: entry["template"] for entry in template}
    return template


def _text(token: Any) -> str | None:
    """Return a token's text; it is stored as that or as an object that holds it."""
    text = token.get("content") if isinstance(token, dict) else token
    return str(text) if text is not None else None


Facts = Mapping[str, Any]
_SHAPE = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)


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
