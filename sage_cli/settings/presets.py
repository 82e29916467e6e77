"""Read presets by their names or paths, each laid over the one that it extends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError, in_short
from sage_cli.settings.elsewhere import absences, notes_on, translated
from sage_cli.settings.shipped import is_path, shipped, shipped_or_path
from sage_cli.settings.yaml_files import read_yaml

DEFAULT_PRESET = "tiny"
EXTENDS = "extends"
"""Top-level key of a preset with the name of the one that it is laid over."""
BLOCKS = {"methods": "rl", "guides": "guide"}
"""Top-level keys with settings for each member of a union, chosen or not, and its section."""


def preset_names() -> list[str]:
    """Return names of the shipped presets."""
    return sorted(path.stem for path in shipped("configs").glob("*.yaml"))


def preset_about(name: str) -> str:
    """Return the first sentence of the comment at the head of a shipped preset."""
    lines = shipped("configs").joinpath(f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line[1:].strip() for line in takewhile(lambda line: line[:1] == "#", lines))
    return comment.split(". ")[0].removesuffix(".")


def read_preset(name: str) -> dict[str, Any]:
    """Return the layer called `name`: a shipped preset, or a YAML or JSON file by its path."""
    return read_layer(shipped_or_path("configs", name, "preset"))


def preset_layers(names: Sequence[str], above: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return the layers of presets by name, each after the one that it `extends`.

    A base that is there already isn't laid again. Raises ConfigurationError for a circle.
    """
    layers: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in above:
            raise ConfigurationError(
                f"presets extend each other in a circle: {' > '.join((*above, name))}",
                f"take `{EXTENDS}` out of one of them",
            )
        values = read_preset(name)
        base = values.pop(EXTENDS, None)
        if base is not None:
            beside = str(Path(name).parent / base) if is_path(base) else base
            layers = {**preset_layers([beside], (*above, name)), **layers}
        layers.pop(name, None)  # what is typed comes after all that is to its left
        layers[name] = values
    return layers


def preset_for(path: str) -> str | None:
    """Return the first shipped preset of the model at `path`, a name of the Hub."""
    paths = {name: read_preset(name).get("model", {}).get("path") for name in preset_names()}
    return next((name for name, its in paths.items() if its == path), None)


def read_layer(path: Path) -> dict[str, Any]:
    """Read a file of settings, whose top level names sections."""
    values = read_yaml(path)
    _check_no_foreign_keys(path, values)
    blocks = {name: values[name] for name in BLOCKS if isinstance(values.get(name), dict)}
    inside = {
        f"{name}.{member}": v for name, block in blocks.items() for member, v in block.items()
    }
    sections = {**values, **inside}
    if isinstance(sections.get(EXTENDS), str):
        del sections[EXTENDS]
    flat = {key: v for key, v in sections.items() if not isinstance(v, dict | None)}
    if flat:
        raise ConfigurationError(
            "\n".join(
                f"{path}: '{key}' must be a section, not {in_short(v)}" for key, v in flat.items()
            ),
            "write each setting below its section, for example `rl:` and then `  steps: 100`",
        )
    return {key: inside for key, inside in values.items() if inside is not None}


def _check_no_foreign_keys(path: Path, values: Mapping[str, Any]) -> None:
    """Answer a configuration of TRL, verl or prime-rl key by key, with the lines that are meant."""
    answered = translated(values)
    if answered is None:
        return
    settings, unknown = answered
    lines = "\n".join(f"--set {key}={_written(value)}" for key, value in settings.items())
    nowhere = f"\nno setting here: {', '.join(unknown)}" if unknown else ""
    nowhere += "".join(f"\n{absent}" for absent in absences(unknown))
    notes = "".join(f"\n{note}" for note in notes_on(list(settings)))
    raise ConfigurationError(
        f"{path} is a configuration of another program, of which {len(settings)} keys have a "
        f"setting here{nowhere}",
        f"type these instead, or write them below their sections in a preset:\n{lines}{notes}",
    )


def _written(value: Any) -> str:
    """Return a value as `--set` takes it."""
    return value if isinstance(value, str) else json.dumps(value)
