"""A model that no run here made is measured under settings that somebody meant for it."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.presets import preset_for
from sage_cli.errors import ConfigurationError


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
        "add " + " ".join(f"--set {one}" for one in lacking) + " (chat is the model's own chat "
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
