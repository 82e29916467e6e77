"""Turn the schema's complaints into sentences: where, what, and what was probably meant."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from sage_cli.config.consent import current, require_consent, without_consent
from sage_cli.config.layers import UNIONS, Layer, Merged, leaves, merge, sections_at, settings
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.methods.grpo import Grpo
from sage_cli.settings.own_code import AS_STORED
from sage_cli.settings.passwords import taken
from sage_cli.settings.presets import DEFAULT_PRESET, preset_names, read_preset, yaml_value
from sage_cli.settings.sections.records import default_root
from sage_cli.settings.sections.sampling import SERVER_URL

_FLAGS = {"rl": ("method", "--algo"), "guide": ("guide", "--guide")}
"""Sections of which a flag chooses the class: what a class is called, and the flag."""
_NEEDED = re.compile(r" needs ([a-z_.]+=[\w-]+)$", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")


def explain(error: ValidationError) -> list[str]:
    """One sentence for every problem that `error` found, in the schema's order."""
    sentences: list[str] = []
    for complaint in error.errors():
        sentences += _sentences(complaint)
    return sentences


def remedy(problems: Sequence[str], error: ValidationError | None = None) -> str:
    """Return the next step for `problems`: a plug-in's own, or where a setting is explained."""
    for complaint in error.errors() if error else ():
        refused = complaint.get("ctx", {}).get("error")
        if isinstance(refused, ConfigurationError) and refused.next_step:
            return refused.next_step
    if needed := _NEEDED.findall("\n".join(problems)):
        return "add " + " ".join(f"--set {setting}" for setting in dict.fromkeys(needed))
    known = settings()
    for name in _NAME.findall("\n".join(problems)):
        if name in known:
            return f"`sage config explain {name}` says what it takes"
    return "`sage config show` prints every setting with its default"


def _sentences(complaint: Any) -> list[str]:
    path = _path(complaint["loc"])
    name, kind, given = ".".join(path), complaint["type"], complaint.get("input")
    if kind == "extra_forbidden":
        return [_unknown_key(path)]
    if kind in ("literal_error", "union_tag_invalid"):
        expected = complaint["ctx"].get("expected") or complaint["ctx"].get("expected_tags")
        known = re.findall(r"'([^']*)'", str(expected))
        if kind == "union_tag_invalid":
            name, given = f"{name}.kind", complaint["ctx"].get("tag")
        return [f"{name} is '{given}'; it can be {', '.join(known)}{meant(str(given), known)}"]
    if kind == "value_error":
        text = str(error := complaint["ctx"]["error"])
        if not path or isinstance(error, ConfigurationError):
            return text.splitlines()
        known = re.findall(r"[\w-]+", text.partition("known: ")[2])
        typed = given.get("name") if isinstance(given, dict) else given
        return [f"{name}: {text}{meant(str(typed), known) if known else ''}"]
    message = complaint["msg"][0].lower() + complaint["msg"][1:]
    return [f"{name} is {given!r}: {message}"]


def _unknown_key(path: Sequence[str]) -> str:
    """Return the sentence on a key that no section has, or that another member of a union has."""
    *above, key = path
    sections = sections_at(above)
    where = ".".join(above) or "the configuration"
    if having := [section for section in sections if key in section.model_fields]:
        tag = UNIONS[where]
        names = [str(get_args(one.model_fields[tag].annotation)[0]) for one in having]
        if where not in _FLAGS:
            return f"{where}.{key} needs {where}.{tag}={' or '.join(names)}"
        noun, flag = _FLAGS[where]
        owners = f"{' and '.join(names)} {noun}{'s' if len(names) > 1 else ''}"
        flags = " or ".join(f"{flag} {name}" for name in names)
        return f"{where}.{key} belongs to the {owners}: add {flags}"
    known = list(dict.fromkeys(key for section in sections for key in section.model_fields))
    return f"{where} has no '{key}'{meant(key, known) or '; it has ' + ', '.join(known)}"


def meant(given: str, known: Iterable[str]) -> str:
    """Return ` (did you mean tau?)` for the nearest of the known names, or an empty text."""
    close = get_close_matches(given, dict.fromkeys(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _path(location: Sequence[str | int]) -> list[str]:
    """The setting's name: pydantic puts a union's tag after its section, which nobody typed."""
    path = [str(part) for part in location]
    if path[:1] == ["model"] and len(path) > 1:
        path.pop(1)
    return path


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


OF_RL = ("model", "prompt", "data", "sft", "rl", "rollout", "anchor", "guide", "grading")
"""The sections that decide which run `sage rl` trains."""
_ABSENT = object()


def options_for(config: SageConfig) -> tuple[str, ...] | None:
    """The words that make what `sage rl` reads of `config`: a preset, choices, and settings.

    The preset is the one that leaves the least to be said. None where no words make them: `--set`
    can't take away an entry of a mapping that a preset has.
    """
    flags: dict[str, dict[str, str]] = {"rl": {"algo": config.rl.algo}}
    if config.rl.compat != "none":
        flags["rl"]["compat"] = config.rl.compat
    if config.guide.name != "none":
        flags["guide"] = {"name": config.guide.name}
    guide = flags.get("guide", {}).get("name")
    named = {"algo": config.rl.algo, "compat": flags["rl"].get("compat"), "guide": guide}
    choices = [word for name, value in named.items() if value for word in (f"--{name}", value)]
    found = []
    for preset in preset_names():
        sets = _sets(config, preset, flags)
        if sets is not None and _differing(config, _loaded(preset, flags, sets)) == []:
            words = [word for one in sets for word in ("--set", one)]
            found.append(("--preset", preset, *choices, *words))
    return min(found, key=len, default=None)


def typed(value: object) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, str):
        try:
            return value if yaml_value(value) == value else json.dumps(value)
        except yaml.YAMLError:
            return json.dumps(value)
    return json.dumps(value)


def _sets(config: SageConfig, preset: str, flags: Mapping[str, Any]) -> list[str] | None:
    """Return the settings to add to a preset and the choices; None if they contradict."""
    sets: list[str] = []
    for _ in range(3):  # a setting such as model.kind brings others along
        made = _loaded(preset, flags, sets)
        if made is None:
            return None
        differing = _differing(config, made)
        if not differing:
            return sets
        sets += [f"{key}={typed(value)}" for key, value in differing]
    return sets


def _differing(config: SageConfig, made: SageConfig | None) -> list[tuple[str, Any]]:
    """The settings of `config` that `made` has otherwise; those that it has too many are none."""
    if made is None:
        return [("", None)]
    has, wanted = dict(_settings(made)), dict(_settings(config))
    missing = [(key, value) for key, value in wanted.items() if has.get(key, _ABSENT) != value]
    return missing or [(key, None) for key in has if key not in wanted]


def _settings(config: SageConfig) -> Iterator[tuple[str, Any]]:
    return leaves(config.model_dump(mode="json", include=set(OF_RL)))


def _loaded(preset: str, flags: Mapping[str, Any], sets: Sequence[str]) -> SageConfig | None:
    try:
        return load([preset], flags, sets).config
    except ConfigurationError:
        return None
