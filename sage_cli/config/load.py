"""From presets, flags and `--set` to one checked configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from sage_cli.config.consent import require_consent, without_consent
from sage_cli.config.explain import explain, remedy
from sage_cli.config.fields import UNIONS
from sage_cli.config.layers import Layer, Merged, leaves, merge
from sage_cli.config.schema import SageConfig
from sage_cli.config.stored import current
from sage_cli.errors import ConfigurationError
from sage_cli.methods.grpo import Grpo
from sage_cli.settings.passwords import taken
from sage_cli.settings.plugins import AS_STORED
from sage_cli.settings.presets import DEFAULT_PRESET, preset_names, read_preset, yaml_value
from sage_cli.settings.sections.records import default_root
from sage_cli.settings.sections.rollout import SERVER_URL

STORED = "stored configuration"
LAYERS = "layers"
"""Top-level key of a stored configuration that keeps the layers it was made from."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """A configuration and the origin of every value that is not a default."""

    config: SageConfig
    origins: Mapping[str, str]

    def table(self) -> list[tuple[str, Any, str]]:
        """Every setting: dotted name, value, origin."""
        everything = leaves(self.config.model_dump(mode="json"))
        return [(name, value, self.origins.get(name, "default")) for name, value in everything]


def load(
    presets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    stored: Mapping[str, Any] | None = None,
) -> Loaded:
    """Defaults < stored configuration or presets from left to right < flags < `--set`.

    `flags` is nested by section; a flag that was not given is None and left out. With neither a
    preset nor a stored configuration the built-in `tiny` preset applies. Passwords of addresses
    are left out of it (`passwords.py`), and a stored one's servers are (`stored.py`). Raises
    ConfigurationError that lists every problem, and where a stored configuration asks for code that
    nothing else says may be run.
    """
    layers = _layers(presets, flags or {}, sets, stored)
    merged = merge(layers)
    require_consent(stored or {}, merged.origins)
    if _servers_of(stored) and "sampling.servers" not in merged.origins:
        log.warning(
            "servers of a stored configuration aren't asked: name those that may sample, as in "
            "--set sampling.servers='[\"http://HOST:8000\"]'"
        )
    config = validate(merged, _as_stored(merged))
    config._layers = tuple(layers)
    return Loaded(config, _origins(merged, config))


def _servers_of(stored: Mapping[str, Any] | None) -> bool:
    sampling = (stored or {}).get("sampling")
    return isinstance(sampling, Mapping) and bool(sampling.get("servers"))


def _as_stored(merged: Merged) -> frozenset[str]:
    """The settings that name plug-ins or an engine as a stored configuration does, nothing having
    been said since."""
    if STORED not in merged.origins.values():
        return frozenset()
    settings = AS_STORED | {SERVER_URL}
    typed = {
        setting
        for setting in settings
        for name, origin in merged.origins.items()
        if origin != STORED and f"{name}.".startswith(f"{setting}.")
    }
    return settings - typed


def runs_root(
    presets: Sequence[str] = (), flag: Path | None = None, sets: Sequence[str] = ()
) -> Path:
    """The folder of runs, by the precedence of all settings, before a configuration is chosen.

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
        Layer(f"preset {name}", read_preset(name), checked=name in shipped) for name in names
    ]
    layers += [Layer("flag", _given(flags), typed=True), _assignments(sets)]
    return [replace(layer, values=taken(layer.values)) for layer in layers]


def _stored_layers(stored: Mapping[str, Any]) -> list[Layer]:
    """Return the layers from which a stored configuration was made, or all of it as one."""
    kept = stored.get(LAYERS)
    if not isinstance(kept, Mapping):
        return [Layer(STORED, current(without_consent(stored)), checked=True)]
    return [
        Layer(STORED, current(without_consent(one["values"])), one["typed"], one["beside"], True)
        for one in kept.values()
    ]


def with_layers(config: SageConfig) -> dict[str, Any]:
    """Return what to store of a configuration for which other choices are to be made again.

    A stored value does not tell what was said of it, and for which choice; layers do. They name no
    services, which a stored configuration does not decide.
    """
    kept = {
        str(number): {
            "values": to_jsonable_python(current(without_consent(layer.values))),
            "typed": layer.typed,
            "beside": layer.beside,
        }
        for number, layer in enumerate(config._layers)
    }
    return {**config.model_dump(mode="json"), **({LAYERS: kept} if kept else {})}


def validate(merged: Merged, as_stored: Set[str] = frozenset()) -> SageConfig:
    """The configuration of merged settings, or every reason why there is none.

    The settings `as_stored` may name plug-ins that aren't installed here: whoever trains with one
    is refused by its name, and measuring needs none.
    """
    problems = [
        f"{settings.origin}: {problem}"
        for section, name, settings in merged.blocks
        for problem in _problems(
            {section: {**settings.values, UNIONS[section]: name}}, section, as_stored
        )
    ]
    wrong = None
    try:
        config = SageConfig.model_validate(merged.values, context=as_stored)
    except ValidationError as error:
        wrong = error
        problems += explain(error)
    else:
        if not problems:
            return config
    if _is_of_another_version(merged, wrong):
        raise ConfigurationError(
            "the stored configuration was written by another version of sage, and this one has "
            "no such settings:\n" + "\n".join(problems),
            "use the version and commit that its manifest.json names, or name its model's folder "
            "and a preset instead: `sage passk runs/ID/model --preset NAME`",
        )
    raise ConfigurationError("\n".join(problems), remedy(problems, wrong))


def _is_of_another_version(merged: Merged, wrong: ValidationError | None) -> bool:
    """Return True if a stored setting, method or guide is one that nothing here has."""
    stored = [name for name, origin in merged.origins.items() if origin == STORED]
    for complaint in wrong.errors() if wrong else ():
        known = complaint["type"] == "value_error" and "known: " in complaint["msg"]
        if complaint["type"] not in ("extra_forbidden", "union_tag_invalid") and not known:
            continue
        name = ".".join(map(str, complaint["loc"]))
        if any(f"{setting}.".startswith(f"{name}.") for setting in stored):
            return True
    return False


def _problems(values: Mapping[str, Any], section: str, as_stored: Set[str]) -> list[str]:
    """Return what is wrong with a member of a union by itself, whatever stands beside it."""
    try:
        SageConfig.model_validate(values, context=as_stored)
    except ValidationError as error:
        by_itself = [one for one in error.errors() if one["loc"][:1] == (section,)]
        return explain(error) if by_itself else []
    return []


def changed(config: SageConfig, settings: Mapping[str, Any]) -> SageConfig:
    """Return `config` with other values for dotted settings, as if they had been typed with it.

    They are one more layer over those from which `config` was made.
    """
    layers = _with(config, settings)
    merged = merge(layers)
    found = validate(merged, _as_stored(merged))
    found._layers = layers
    return found


def _with(config: SageConfig, settings: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Return the layers from which `config` was made, and one with `settings` over them."""
    said = config._layers or (
        Layer("configuration", config.model_dump(mode="json", exclude_unset=True)),
    )
    more = Merged()
    more.put(settings, "changed")
    return (*said, Layer("changed", more.values, typed=True))


def _origins(merged: Merged, config: SageConfig) -> dict[str, str]:
    """Return where values come from, those of the method's class, too."""
    method, origin = type(config.rl), f"method {config.rl.algo}"
    own = {
        f"rl.{name}": origin
        for name, field in method.model_fields.items()
        if name not in Grpo.model_fields or field.default != Grpo.model_fields[name].default
    }
    return {**own, **merged.origins}


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in flags.items():
        inner = _given(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[key] = inner
    return kept


def _assignments(texts: Sequence[str]) -> Layer:
    """All of `--set` as one layer, beside the flags."""
    merged = Merged()
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not all(name.strip().split(".")) or "." not in name:
            raise ConfigurationError(
                f"--set takes section.key=value, not '{text}'", "for example --set rl.steps=100"
            )
        try:
            parsed = yaml_value(value)
        except yaml.YAMLError:
            parsed = value
        merged.put({name.strip(): parsed}, "--set")
    return Layer("--set", merged.values, typed=True, beside=True)
