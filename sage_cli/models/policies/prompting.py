"""Settings of models that no run here made: exported, imported, and those that must be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import read_json
from sage_cli.settings.presets import preset_for, read_layer
from sage_cli.settings.sections.sampling import DecodingSection
from sage_cli.store.runs.manifest import IMPORTED
from sage_cli.store.runs.run import Run

SAGE_FILE = "sage.json"


def exported_settings(folder: Path) -> dict[str, Any]:
    """The settings under which an exported model is measured: `prompt`, and decoding.

    Empty for a folder that `sage export` didn't write, or wrote from a model that no run made.
    """
    exported = settings_to_export(read_json(folder / SAGE_FILE))
    return {section: settings for section, settings in exported.items() if settings}


def exported_template(folder: Path) -> str | None:
    """The hash of the prompt template that an exported model was trained under."""
    template = read_json(folder / SAGE_FILE).get("template")
    return str(template) if template else None


def settings_to_export(config: Mapping[str, Any]) -> dict[str, Any]:
    """The prompt and decoding settings in a run's configuration or a `sage.json`.

    Never the place of sampling: a received file names no servers.
    """
    sampling = config.get("sampling") or {}
    decoding = {key: sampling[key] for key in DecodingSection.model_fields if key in sampling}
    return {"prompt": config.get("prompt"), "sampling": decoding or None}


def require_prompt(names: Sequence[str], sets: Sequence[str], *, others_settings: bool) -> None:
    """Refuse models that don't say how they are prompted, unless `--set` does.

    With `others_settings` the configuration is another model's: then the limit of tokens has to be
    named as well. A prompt or a limit that was made for a model of another make would score the
    model near 0 and say nothing.
    """
    lacking = [] if any(_sets(text, "prompt.") for text in sets) else ["prompt.format=chat"]
    if others_settings and not any(_sets(text, "sampling.max_tokens") for text in sets):
        lacking.append("sampling.max_tokens=2048")
    if not names or not lacking:
        return
    preset = preset_for(names[0])
    raise ConfigurationError(
        f"no run here made {', '.join(names)}, and nothing says under which settings to measure "
        "what somebody else made",
        "add "
        + " ".join(f"--set {setting}" for setting in lacking)
        + " (chat is the model's own chat "
        f"template; paper and plain need none), or --preset {preset or 'NAME'}",
    )


def refuse_other_path(names: Sequence[str], sets: Sequence[str]) -> None:
    """Refuse a `model.path` that isn't what is measured."""
    path = set_path(sets)
    if names and path is not None and path not in names:
        raise ConfigurationError(
            f"model.path is '{path}', and {', '.join(names)} is to be measured",
            f"name the model to measure in their place: {path}",
        )


def set_path(sets: Sequence[str]) -> str | None:
    """The model that `--set model.path=...` names."""
    paths = [text.partition("=")[2].strip() for text in sets if _sets(text, "model.path")]
    return paths[-1] if paths else None


def _sets(text: str, name: str) -> bool:
    key = text.partition("=")[0].strip()
    return key == name or (name.endswith(".") and key.startswith(name))


PROBLEMS = "problems.jsonl"
"""The file of an imported run with its problems: `question`, `gold`, and the program's `id`."""
NO_GOLD = "(the imported file has no gold)"
"""Stands for the gold of a problem that has none; only the program's verdicts count on it."""


def stored_settings(run: Run) -> dict[str, Any]:
    """Return a run's stored configuration; the benchmark of an imported one is its own problems.

    They lie beside the configuration, so that a folder of runs may be moved, and the configuration
    names no other file.
    """
    settings = read_layer(run.folder / "config.json")
    if run.manifest.get("kind") != IMPORTED:
        return settings
    own = {"benchmark": str(run.folder / PROBLEMS), "fields": {}}
    return {**settings, "evaluation": {**settings.get("evaluation", {}), **own}}


def known_sampling(run: Run) -> dict[str, Any]:
    """Return what the file of an imported run says of sampling: numbers and texts alone."""
    said = (run.manifest.get("imported") or {}).get("settings") or {}
    numbers = ("temperature", "top_p", "max_tokens", "seed")
    return {
        key: value
        for key, value in said.items()
        if isinstance(value, int | float if key in numbers else str | int | float)
    }
