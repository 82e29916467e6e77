"""Sending an exported folder to the Hub, where that is typed."""

from __future__ import annotations

from pathlib import Path

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.hub import is_hub_name
from sage_cli.progress import Progress


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
