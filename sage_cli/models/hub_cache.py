"""Models in the Hub's cache.

The cached commit of a Hub model's branch is used until it is fetched again: a model doesn't change
between two commands because its branch has moved on.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sage_cli.errors import AbsentModelError

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


def pinned_revision(path: str, revision: str | None) -> str | None:
    """The commit of a Hub model, as far as cache or Hub tell; `revision` itself for a folder."""
    snapshot = None if Path(path).is_dir() else cached_snapshot(path, revision)
    return revision if snapshot is None else snapshot.name


def cached_snapshot(name: str, revision: str | None) -> Path | None:
    """Return the cached folder of a Hub model's commit; None if it can't be had."""
    snapshot = _snapshot(name, revision)
    return snapshot if isinstance(snapshot, Path) else None
