"""Layers of settings, and how they are merged: a later layer wins, setting by setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_cli.config.catalogue import UNIONS, default_member, member_of, members, own_settings
from sage_cli.methods.method import Method
from sage_cli.settings.compat import (
    OFFICIAL,
    WARM_UP,
    official_evaluation_settings,
    official_settings,
)
from sage_cli.settings.presets import BLOCKS

LASTING = {"rl": frozenset(Method.model_fields)}
"""Settings of a union that are of no member in particular: they hold whichever is chosen."""


@dataclass(frozen=True)
class Layer:
    """Settings and what to call their origin, as `preset tiny` or `--set`.

    `typed` settings are meant for whatever is chosen. Blocks of a `checked` layer, as of a shipped
    preset, were validated before.
    """

    origin: str
    values: Mapping[str, Any]
    typed: bool = False
    checked: bool = False

    def names(self, setting: str) -> bool:
        """Return True if the user says `setting` here: by a flag, `--set` or an own preset."""
        own = not self.checked and self.origin != "changed"
        return own and value_at(self.values, setting) is not None


@dataclass
class Merged:
    """Nested settings, and the origin of every leaf by its dotted name."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def put(self, values: Mapping[str, Any], origin: str) -> None:
        """Lay `values`, nested or by dotted names, over what is there."""
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
    """Lay the layers over each other, the first at the bottom.

    The final choices add layers: what the method says of the anchor lies below all others, the
    authors' values (`compat: official`) just below the layer that asks for them.
    """
    layers = list(layers)
    final = {section: default_member(section) for section in UNIONS}
    for layer in layers:
        final |= choices(layer.values)
    layers.insert(0, _method_layer(final))
    merged = _overlaid(layers, final)
    official = [
        (section, theirs)
        for section, theirs in (
            ("rl", official_settings(_decisive(merged, final))),
            ("evaluation", official_evaluation_settings()),
        )
        if merged.get(section, "compat") == OFFICIAL
    ]
    for section, theirs in official:
        asking = [
            i for i, layer in enumerate(layers) if "compat" in _mapping(layer.values.get(section))
        ]
        layers.insert(max(asking, default=0), _official_layer(theirs, final))
    return _overlaid(layers, final) if official else merged


def choices(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of unions that settings choose, by section.

    What is no name is left for the schema to refuse.
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
    return any(key in kind.model_fields for kind in members(section).values())


def _method_layer(final: Mapping[str, str]) -> Layer:
    """Return what the chosen method says of the anchor."""
    method = member_of("rl", final["rl"])
    assert issubclass(method, Method)
    kl = "reverse" if final["guide"] != "none" else method.kl_without_guide
    return Layer(f"method {final['rl']}", {"anchor": {"kl": kl, **method.anchored}})


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


_SCALARS = frozenset({str, int, float, bool, type(None), list})


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; empty mappings and lists are leaves."""
    for key, value in values.items():
        name = f"{above}{key}"
        # scalars first: the test for a mapping is slow, and `sage view` reads 1,000 configurations
        if value.__class__ not in _SCALARS and isinstance(value, Mapping) and value:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Return the leaf of that dotted name; None if there is none."""
    inside: Any = values
    for part in name.split("."):
        if not isinstance(inside, Mapping) or part not in inside:
            return None
        inside = inside[part]
    return None if isinstance(inside, Mapping) and inside else inside
