"""Load a configuration from presets, flags and `--set`, or from a stored one, and check it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from sage_cli.config.consent import current, require_consent, without_consent
from sage_cli.config.explain import check_called_here, explain, remedy, settings_ending_in
from sage_cli.config.layer import Layer
from sage_cli.config.merge import DISTILLATION, Merged, blocks, choices, mapping_in, merge, says
from sage_cli.config.schema import (
    UNIONS,
    SageConfig,
)
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves, value_at
from sage_cli.methods.grpo import Grpo
from sage_cli.settings.former_names import today, today_key
from sage_cli.settings.official import OFFICIAL
from sage_cli.settings.own_code import AS_STORED
from sage_cli.settings.passwords import require_no_secrets
from sage_cli.settings.presets import BLOCKS, DEFAULT_PRESET, preset_layers, preset_names
from sage_cli.settings.rollout import SERVER_URL
from sage_cli.settings.run import default_root
from sage_cli.settings.yaml_files import yaml_value

STORED = "stored configuration"
PRESET = "preset "
LAYERS = "layers"
"""Top-level key of a stored configuration that keeps the layers it was made from."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """A configuration and the origin of every value that is not a default."""

    config: SageConfig
    origins: Mapping[str, str]

    def table(self) -> list[tuple[str, Any, str]]:
        """Return every setting: dotted name, value, origin."""
        everything = leaves(self.config.model_dump(mode="json"))
        return [(name, value, self.origins.get(name, "default")) for name, value in everything]


def load(
    presets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    stored: Mapping[str, Any] | None = None,
) -> Loaded:
    """Return the configuration of what is typed, or of a stored one with what is typed over it.

    Defaults < stored configuration or presets from left to right < flags < `--set`. `flags` is
    nested by section; a flag that was not given is None. With neither a preset nor a stored
    configuration the built-in `tiny` preset applies. Passwords of addresses are taken out
    (`passwords.py`), and so are servers of a stored configuration (`consent.py`). Raises
    ConfigurationError that lists every problem, and where a stored configuration asks for code that
    nothing else says may be run.
    """
    layers = _layers(presets, flags or {}, sets, stored)
    merged = merge(layers)
    require_consent(stored or {}, merged.origins)
    if value_at(stored or {}, "sampling.servers") and "sampling.servers" not in merged.origins:
        log.warning(
            "servers of a stored configuration aren't asked: name those that may sample, as in "
            "--set sampling.servers='[\"http://HOST:8000\"]'"
        )
    config = _validated(layers, merged)
    return Loaded(config, _origins(merged, config))


def _as_stored(merged: Merged) -> frozenset[str]:
    """Return the settings by which plug-ins and an engine are named in a stored configuration only.

    What they name needn't be here; what is typed must.
    """
    if STORED not in merged.origins.values():
        return frozenset()
    typed = {name for name, origin in merged.origins.items() if origin != STORED}
    return (AS_STORED | {SERVER_URL}) - typed


def runs_root(
    presets: Sequence[str] = (), flag: Path | None = None, sets: Sequence[str] = ()
) -> Path:
    """Return the folder of runs by the precedence of all settings.

    Which run's configuration a measuring command takes depends on where the runs are.
    """
    merged = merge(_layers(presets, {"run": {"root": flag}}, sets, {}))
    return Path(merged.get("run", "root") or default_root())


def _layers(
    presets: Sequence[str],
    flags: Mapping[str, Any],
    sets: Sequence[str],
    stored: Mapping[str, Any] | None,
) -> list[Layer]:
    layers = [] if stored is None else _stored_layers(stored)
    names = presets or ([] if stored is not None else [DEFAULT_PRESET])
    shipped = preset_names()
    layers += [
        Layer(f"{PRESET}{name}", values, checked=name in shipped)
        for name, values in preset_layers(names).items()
    ]
    assigned, typed_flags = _assignments(sets), Merged()
    typed_flags.put({name: v for name, v in leaves(flags) if v not in (None, {})}, "flag")
    given = typed_flags.values
    # flags and --set are typed together: a choice made by --set holds for the flags, too
    for section, name in choices(assigned).items():
        given.setdefault(section, {})[UNIONS[section]] = name
    layers += [Layer("flag", given, typed=True), Layer("--set", assigned, typed=True)]
    for layer in layers:
        require_no_secrets(layer.values)
    return [replace(layer, values=today(layer.values)) for layer in layers]


def _stored_layers(stored: Mapping[str, Any]) -> list[Layer]:
    """Return the layers from which a stored configuration was made, or all of it as one."""
    parts = stored.get(LAYERS)
    if not isinstance(parts, Mapping):
        parts = {"": {"values": stored, "typed": False}}
    return [
        Layer(STORED, current(without_consent(part["values"])), part["typed"], True)
        for part in parts.values()
    ]


def with_layers(config: SageConfig) -> dict[str, Any]:
    """Return what to store of a configuration for which other choices are to be made again.

    A stored value does not tell what was said of it, and for which choice; layers do. They name no
    services, which a stored configuration does not decide.
    """
    layers = {
        str(number): {
            "values": to_jsonable_python(current(without_consent(layer.values))),
            "typed": layer.typed,
        }
        for number, layer in enumerate(config._layers)
    }
    return {**config.model_dump(mode="json"), **({LAYERS: layers} if layers else {})}


def _validated(layers: Sequence[Layer], merged: Merged) -> SageConfig:
    """Return the configuration of merged layers. Raises ConfigurationError with every problem."""
    as_stored = _as_stored(merged)
    problems = [
        f"{origin}: {problem}"
        for layer in layers
        if not layer.checked
        for section, name, origin, block in blocks(layer)
        for problem in _block_problems(section, {**block, UNIONS[section]: name}, as_stored)
    ]
    wrong = None
    try:
        config = SageConfig.model_validate(merged.values, context=as_stored)
    except ValidationError as error:
        wrong = error
        problems += explain(error)
    else:
        if not problems:
            config._layers, config._merged = tuple(layers), merged
            return config
    if gone := _stored_and_unknown(merged, wrong):
        raise ConfigurationError(
            "the stored configuration was written by another version of sage. This version has no "
            + ", ".join(gone),
            "use the version and commit in its manifest.json, or give its model "
            "folder and a preset: `sage passk runs/ID/model --preset NAME`",
        )
    raise ConfigurationError("\n".join(problems), remedy(problems, wrong))


def _stored_and_unknown(merged: Merged, wrong: ValidationError | None) -> list[str]:
    """Return the stored settings, methods and guides that nothing here has."""
    stored = [name for name, origin in merged.origins.items() if origin == STORED]
    unknown = []
    for complaint in wrong.errors() if wrong else ():
        no_such_member = complaint["type"] == "value_error" and "known: " in complaint["msg"]
        if no_such_member or complaint["type"] in ("extra_forbidden", "union_tag_invalid"):
            unknown.append(".".join(map(str, complaint["loc"])))
    return [
        name for name in unknown if any(f"{setting}.".startswith(f"{name}.") for setting in stored)
    ]


def _block_problems(section: str, block: Mapping[str, Any], as_stored: Set[str]) -> list[str]:
    """Return what is wrong with a method's or guide's block by itself, chosen or not."""
    try:
        SageConfig.model_validate({section: block}, context=as_stored)
    except ValidationError as error:
        # whether it fits to other sections shows when it is chosen
        by_itself = any(complaint["loc"][:1] == (section,) for complaint in error.errors())
        return explain(error) if by_itself else []
    return []


def require_named_model(config: SageConfig) -> None:
    """Raise ConfigurationError where presets were named, and nothing that is said names a model."""
    keys = [key for layer in config._layers for key in layer.values.get("model") or ()]
    own = [layer.origin for layer in config._layers if layer.origin.startswith(PRESET)]
    if own and not {"kind", "path"}.intersection(keys):
        raise ConfigurationError(
            "no preset names a model, by model.path or model.kind",
            f"-p {DEFAULT_PRESET} -p {own[-1].removeprefix(PRESET)} lays yours over the smallest "
            f"one, and so does `extends: {DEFAULT_PRESET}` in it; --init takes a model of yours",
        )


def changed(config: SageConfig, settings: Mapping[str, Any]) -> SageConfig:
    """Return `config` with other values for dotted settings, as if they had been typed with it.

    They are one more layer over those from which `config` was made.
    """
    below = config._layers or (
        Layer("configuration", config.model_dump(mode="json", exclude_unset=True)),
    )
    above = Merged()
    above.put({today_key(name): value for name, value in settings.items()}, "changed")
    layer = Layer("changed", above.values, typed=True)
    layers, merged = (*below, layer), config._merged
    if merged is None or _decides(layer, merged):
        return _validated(layers, merge(layers))
    # nothing that lies below depends on the layer: it is laid over what they were merged to
    merged = Merged(deepcopy(merged.values), dict(merged.origins))
    merged.put(layer.values, layer.origin)
    return _validated(layers, merged)


def _decides(layer: Layer, merged: Merged) -> bool:
    """Return True if what the layers below a layer say may hold or not because of it."""
    official = any(merged.get(name, "compat") == OFFICIAL for name in ("rl", "evaluation"))
    asks = any("compat" in mapping_in(layer.values.get(name)) for name in ("rl", "evaluation"))
    chooses = choices(layer.values) or BLOCKS.keys() & layer.values.keys()
    return bool(official or asks or chooses or says(layer, *DISTILLATION))


def _origins(merged: Merged, config: SageConfig) -> dict[str, str]:
    """Return where values come from, those of the method's class, too."""
    method, origin = type(config.rl), f"method {config.rl.algo}"
    of_method = {
        f"rl.{name}": origin
        for name, field in method.model_fields.items()
        if name not in Grpo.model_fields or field.default != Grpo.model_fields[name].default
    }
    return {**of_method, **merged.origins}


def _assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of all `--set`, nested."""
    merged = Merged()
    for text in texts:
        name, equals, value = text.partition("=")
        if equals:
            check_called_here(name.strip(), value)
        if equals and (ending := settings_ending_in(name.strip())):
            raise ConfigurationError(
                f"--set '{text}' does not have the form section.key=value",
                f"write --set {' or '.join(f'{key}={value}' for key in ending)}",
            )
        if not equals or not all(name.strip().split(".")) or "." not in name:
            raise ConfigurationError(
                f"--set '{text}' does not have the form section.key=value",
                "for example --set rl.steps=100",
            )
        try:
            parsed = yaml_value(value)
        except yaml.YAMLError:
            parsed = value
        merged.put({name.strip(): parsed}, "--set")
    return merged.values


def typed(value: object) -> str:
    """Return a value as `--set` takes it."""
    if isinstance(value, str):
        try:
            return value if yaml_value(value) == value else json.dumps(value)
        except yaml.YAMLError:
            return json.dumps(value)
    return json.dumps(value)
