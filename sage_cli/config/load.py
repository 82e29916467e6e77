"""Load a configuration from presets, flags and `--set`, or from a stored one, and check it."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from sage_cli.config.consent import current, is_typed_again, require_consent, without_consent
from sage_cli.config.explain import check_called_here, explain, remedy, said_by, settings_ending_in
from sage_cli.config.layer import Layer
from sage_cli.config.readers import unread
from sage_cli.config.schema import (
    UNIONS,
    SageConfig,
    default_member,
    member_of,
    own_settings,
    union_members,
)
from sage_cli.errors import ConfigurationError, in_short
from sage_cli.json_value import leaves, value_at
from sage_cli.methods.grpo import Grpo
from sage_cli.methods.loop import Method
from sage_cli.settings.anchor import DISTILLING, OWN_REFERENCES
from sage_cli.settings.former_names import today, today_key
from sage_cli.settings.official import OFFICIAL, WARM_UP, official_settings
from sage_cli.settings.own_code import AS_STORED
from sage_cli.settings.passwords import require_no_secrets
from sage_cli.settings.presets import BLOCKS, DEFAULT_PRESET, preset_layers, preset_names
from sage_cli.settings.rewards import pays_nothing
from sage_cli.settings.rollout import SERVER_URL
from sage_cli.settings.run import default_root
from sage_cli.settings.yaml_files import yaml_value

STORED = "stored configuration"
PRESET = "preset "
LAYERS = "layers"
"""Top-level key of a stored configuration that keeps the layers it was made from."""
log = logging.getLogger(__name__)


DISTILLATION = ("anchor.reference", "rl.rewards")
"""The settings that together ask for distillation: a teacher, and no reward."""
LASTING = {"rl": frozenset(Method.model_fields)}
"""Settings of a union that are of no member in particular: they hold whichever is chosen."""
_OF_PRESETS = ("anchor.kl", "model.tuning")
_CHOICES = ("rl.algo", "guide.name", *_OF_PRESETS)
_TYPED = ("flag", "--set")
_OF_SWEEPS = ("sweep", "executor")
_OF_TRAINED = ("rl", "rollout", "anchor", "guide", *BLOCKS, *_OF_SWEEPS)
_MEASURING = ("eval", "passk", "compare", "power", "analyze", "samples show")
_OF_STUDIES = ("sft.enabled", "sweep.benchmark")
"""What all commands of a study may be told: scripts share these words, and a training that is
validated reads the benchmark of sweeps."""


@dataclass
class Merged:
    """Nested settings, and the origin of every leaf by its dotted name."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def put(self, values: Mapping[str, Any], origin: str) -> None:
        """Add `values`, nested or by dotted names, and override what is there."""
        for name, value in leaves(values):
            *sections, key = name.split(".")
            inside = self.values
            for section in sections:
                inner = inside.get(section)
                inside[section] = inside = inner if isinstance(inner, dict) else {}
            inside[key] = value
            self.origins[name] = origin

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """Return the value of `section.key`."""
        inside = self.values.get(section)
        return inside.get(key, default) if isinstance(inside, dict) else default


def merge(layers: Iterable[Layer]) -> Merged:
    """Merge the layers; later ones override earlier ones.

    The final choices add layers: what the method says of the anchor lies below all others, the
    authors' values (`compat: official`) just below the layer that asks for them.
    """
    layers = list(layers)
    final = {section: default_member(section) for section in UNIONS}
    for layer in layers:
        final |= choices(layer.values)
    layers.insert(0, _method_layer(final))
    merged = _overlaid(layers, final)
    if distils(merged):
        # below what asks for it, and above the preset of a model, whose beta is another anchor's
        first = next(i for i, layer in enumerate(layers) if _says(layer, *DISTILLATION))
        layers.insert(first, _distillation_layer(final))
        merged = _overlaid(layers, final)
    official = [name for name in ("rl", "evaluation") if merged.get(name, "compat") == OFFICIAL]
    for section in official:
        theirs = official_settings(_decisive(merged, final), section)
        asking = [
            i for i, layer in enumerate(layers) if "compat" in _mapping(layer.values.get(section))
        ]
        layers.insert(max(asking, default=0), _official_layer(theirs, final))
    return _overlaid(layers, final) if official else merged


def choices(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of unions that settings choose, by section.

    What is not a name is left for the schema to refuse.
    """
    names = {section: _mapping(values.get(section)).get(tag) for section, tag in UNIONS.items()}
    return {section: name for section, name in names.items() if isinstance(name, str)}


def blocks(layer: Layer) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield what a layer says for each method and guide: section, name, origin and settings."""
    for key, section in BLOCKS.items():
        for name, block in _mapping(layer.values.get(key)).items():
            yield section, name, f"{layer.origin}, {key}.{name}", _mapping(block)


def _overlaid(layers: Sequence[Layer], final: Mapping[str, str]) -> Merged:
    """Return the layers' settings as far as they hold for the members that are chosen finally."""
    merged = Merged()
    chosen = {section: default_member(section) for section in UNIONS}
    for layer in layers:
        chosen |= choices(layer.values)
        for section, name, origin, block in blocks(layer):
            if name == final[section] and block:
                merged.put({section: block}, origin)
        values = dict(layer.values)
        for section in UNIONS:
            if section in values and chosen[section] != final[section]:
                inside = values.pop(section)
                lasting = _lasting(section, inside, layer, chosen[section], final[section])
                if lasting:
                    values[section] = lasting
        merged.put(values, layer.origin)
    return merged


def _lasting(section: str, inside: Any, layer: Layer, before: str, final: str) -> Any:
    """Return what a layer says of a section that holds although `final` is chosen, not `before`."""
    if not isinstance(inside, Mapping):
        return inside
    tag, kind = UNIONS[section], member_of(section, final)
    bound: set[str] = set()  # settings that go with the earlier choice
    if not layer.typed:
        bound = set(inside) if section in choices(layer.values) else own_settings(section, before)
    return {
        key: value
        for key, value in inside.items()
        if key != tag
        and (
            key in LASTING.get(section, ())
            # a key that no member has is kept, so that the schema refuses it
            or (key not in bound and (key in kind.model_fields or not _is_known(section, key)))
        )
    }


def _is_known(section: str, key: str) -> bool:
    """Return True if a member of the union has the setting; all of its members are imported."""
    return any(key in kind.model_fields for kind in union_members(section).values())


def _method_layer(final: Mapping[str, str]) -> Layer:
    """Return what the chosen method says of the anchor."""
    method = member_of("rl", final["rl"])
    assert issubclass(method, Method)
    kl = "reverse" if final["guide"] != "none" else method.kl_without_guide
    return Layer(f"method {final['rl']}", {"anchor": {"kl": kl, **method.anchored}})


def distils(merged: Merged) -> bool:
    """Return True if settings name a teacher and pay no reward, whatever else they say."""
    reference = merged.get("anchor", "reference", OWN_REFERENCES[0])
    return reference not in OWN_REFERENCES and pays_nothing(merged.get("rl", "rewards"))


def _distillation_layer(final: Mapping[str, str]) -> Layer:
    """Return what holds for a policy that learns from a teacher alone, unless something else is
    said.
    """
    fields = member_of("rl", final["rl"]).model_fields
    rl = {"dynamic_sampling": False, "overlong_buffer": None}
    return Layer(
        "distillation",
        {
            "anchor": {"kl": "reverse", "beta": 1.0, "estimator": DISTILLING[0]},
            "rl": {name: value for name, value in rl.items() if name in fields},
        },
    )


def _says(layer: Layer, *settings: str) -> bool:
    return any(layer.says(setting) for setting in settings)


def _official_layer(settings: Mapping[str, Any], final: Mapping[str, str]) -> Layer:
    """Return the authors' settings without those that the chosen method doesn't have."""
    fields = member_of("rl", final["rl"]).model_fields
    merged = Merged()
    for name, value in settings.items():
        section, _, key = name.partition(".")
        if section != "rl" or key in fields:
            merged.put({name: value}, "")
    return Layer(f"compat {OFFICIAL}", merged.values, typed=True)


def _decisive(merged: Merged, final: Mapping[str, str]) -> tuple[str, ...]:
    """Return the choices that decide the authors' values: method, guide, tuning, prompt, ..."""
    scratch = final["model"] == "scratch"
    tuning = merged.get("model", "tuning", "full" if scratch else "lora")
    warm_up = (WARM_UP,) if not scratch and merged.get("sft", "enabled", True) else ()
    prompts = merged.get("prompt", "format", "paper")
    return (final["rl"], final["guide"], str(tuning), str(prompts), *warm_up)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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


def _all_but(*sections: str) -> tuple[str, ...]:
    return tuple(name for name in SageConfig.model_fields if name not in sections)


NOT_READ_BY: Mapping[str, Sequence[str]] = {
    "rl": _OF_SWEEPS,
    "rl --init": ("sft", "data.sft", *_OF_SWEEPS),
    "sweep --init": ("sft", "data.sft"),
    "doctor": ("sweep",),
    "doctor --init": ("sft", "data.sft", "sweep"),
    "sft": ("data.rl", *_OF_TRAINED),
    **dict.fromkeys(_MEASURING, ("sft", *_OF_TRAINED)),
    "samples tokens": ("sft", *_OF_SWEEPS),
    **dict.fromkeys(
        ("compare FILE", "passk FILE", "power FILE"), _all_but("evaluation", "grading", "run")
    ),
    "grade": _all_but("grading", "prompt", "run"),
    "data": _all_but("data", "evaluation"),
}
"""By command, the sections and parts of sections of which it reads nothing."""


def not_read(command: str, setting: str, config: SageConfig) -> str | None:
    """Return the part of `config` that `sage command` never reads and the setting is of, if any."""
    parts = NOT_READ_BY.get(command, ()) if setting not in _OF_STUDIES else ()
    if command == "sft" and config.model.kind == "scratch" and config.model.tuning == "lora":
        parts = (*parts, "model.tuning", "model.lora")  # random weights are trained in full
    return next((part for part in parts if f"{setting}.".startswith(f"{part}.")), None)


def check_settings_read(loaded: Loaded, command: str, searched: Collection[str] = ()) -> None:
    """Raise ConfigurationError for a value that the user gives and that `sage command` never reads.

    A preset of one's own may serve several choices, so its values are left where one is typed. A
    choice that is `searched` may be any. What a stored configuration may not say is typed for all.
    """
    for name in searched:
        if (part := not_read(command, name, loaded.config)) is not None:
            raise ConfigurationError(
                f"{name} can't be searched: `sage {command}` reads no setting of {part}",
                "search another setting",
            )
    origins, shipped = loaded.origins, [f"{PRESET}{name}" for name in preset_names()]
    chosen = any(origins.get(choice) in _TYPED for choice in _CHOICES)
    for name, origin in origins.items():
        part, again = not_read(command, name, loaded.config), is_typed_again(name)
        of_preset = origin.startswith(PRESET) and origin.partition(",")[0] not in shipped
        if origin in _TYPED and not again and part is not None:
            full = ", since random weights are trained in full" * part.startswith("model.")
            raise ConfigurationError(
                f"{name} ({said_by(name, origin)}) has no effect: `sage {command}` reads no "
                f"setting of {part}{full}",
                "leave it out",
            )
        choice, value, reading = unread(loaded.config, name) or ("", None, None)
        if not choice or choice in searched or (again and STORED in origins.values()):
            continue
        if origin in _TYPED or (of_preset and not chosen and choice in _OF_PRESETS):
            why, step = (
                f"{choice} is {in_short(value)}",
                f"add --set {choice}={typed(reading)}, or ",
            )
            try:
                changed(loaded.config, {choice: reading})
            except ConfigurationError as error:  # nothing that could be added lets it be read
                why, step = f"{why}, and {error.cause.partition(' (')[0]}", ""
            raise ConfigurationError(
                f"{name} ({said_by(name, origin)}) has no effect: {why}", f"{step}leave it out"
            )


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
    asks = any("compat" in _mapping(layer.values.get(name)) for name in ("rl", "evaluation"))
    chooses = choices(layer.values) or BLOCKS.keys() & layer.values.keys()
    return bool(official or asks or chooses or _says(layer, *DISTILLATION))


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
