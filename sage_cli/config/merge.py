"""Layers of settings, merged into one: a later layer decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_cli.config.layer import Layer
from sage_cli.config.schema import (
    UNIONS,
    default_member,
    member_of,
    own_settings,
    union_members,
)
from sage_cli.json_value import leaves
from sage_cli.methods.loop import Method
from sage_cli.settings.anchor import DISTILLING, OWN_REFERENCES
from sage_cli.settings.official import OFFICIAL, WARM_UP, official_settings
from sage_cli.settings.presets import BLOCKS
from sage_cli.settings.rewards import pays_nothing

DISTILLATION = ("anchor.reference", "rl.rewards")
"""The settings that together ask for distillation: a teacher, and no reward."""
LASTING = {"rl": frozenset(Method.model_fields)}
"""Settings of a union that are of no member in particular: they hold whichever is chosen."""


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
        first = next(i for i, layer in enumerate(layers) if says(layer, *DISTILLATION))
        layers.insert(first, _distillation_layer(final))
        merged = _overlaid(layers, final)
    official = [name for name in ("rl", "evaluation") if merged.get(name, "compat") == OFFICIAL]
    for section in official:
        theirs = official_settings(_decisive(merged, final), section)
        asking = [
            i for i, layer in enumerate(layers) if "compat" in mapping_in(layer.values.get(section))
        ]
        layers.insert(max(asking, default=0), _official_layer(theirs, final))
    return _overlaid(layers, final) if official else merged


def choices(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of unions that settings choose, by section.

    What is not a name is left for the schema to refuse.
    """
    names = {section: mapping_in(values.get(section)).get(tag) for section, tag in UNIONS.items()}
    return {section: name for section, name in names.items() if isinstance(name, str)}


def blocks(layer: Layer) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield what a layer says for each method and guide: section, name, origin and settings."""
    for key, section in BLOCKS.items():
        for name, block in mapping_in(layer.values.get(key)).items():
            yield section, name, f"{layer.origin}, {key}.{name}", mapping_in(block)


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


def says(layer: Layer, *settings: str) -> bool:
    """Return True if a layer says one of the settings."""
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


def mapping_in(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping; an empty one for any other."""
    return value if isinstance(value, Mapping) else {}
