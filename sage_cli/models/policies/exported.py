"""The settings of an exported model: `sage.json`, written beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.decoding import DecodingSection
from sage_cli.models.folders import read_json

SAGE_FILE = "sage.json"


def exported_settings(folder: Path) -> dict[str, Any]:
    """The settings under which an exported model is measured: `prompt`, and decoding.

    Empty for a folder that `sage export` didn't write, or wrote from a model that no run made.
    """
    said = settings_to_export(read_json(folder / SAGE_FILE))
    return {section: settings for section, settings in said.items() if settings}


def exported_template(folder: Path) -> str | None:
    """The hash of the prompt template that an exported model was trained under."""
    template = read_json(folder / SAGE_FILE).get("template")
    return str(template) if template else None


def settings_to_export(config: Mapping[str, Any]) -> dict[str, Any]:
    """The prompt and decoding settings in a run's configuration or a `sage.json`.

    Never where it is sampled: somebody else's file doesn't name servers.
    """
    sampling = config.get("sampling") or {}
    drawn = {key: sampling[key] for key in DecodingSection.model_fields if key in sampling}
    return {"prompt": config.get("prompt"), "sampling": drawn or None}
