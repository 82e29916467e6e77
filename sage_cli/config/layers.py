"""Keys of the schema's sections, and every setting by its dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from sage_cli.config.schema import SageConfig
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.settings.compat import (
    OFFICIAL,
    WARM_UP,
    official_evaluation_settings,
    official_settings,
)
from sage_cli.settings.presets import BLOCKS
from sage_cli.settings.section import Extensible, Section, in_file, is_cosmetic

UNIONS = {"rl": "algo", "guide": "name", "model": "kind"}
"""Sections that are unions, and the key that tells their members apart."""
LASTING = {"rl": frozenset(Method.model_fields)}
"""Settings of a union that are of no member in particular: they hold whichever is chosen."""


@dataclass(frozen=True)
class Setting:
    """A setting's dotted name and what the schema says of it.

    `integer`: whole numbers only. `open`: a mapping, whose keys the schema doesn't know.
    """

    key: str
    integer: bool = False
    cosmetic: bool = False
    open: bool = False


def settings() -> dict[str, Setting]:
    """Every setting, over all members of unions, in the schema's order."""
    return _settings((*Method.members(), *Guide.members()))


def setting(key: str) -> Setting | None:
    """Return the setting called `key`, or the mapping that is open to it; None if there is neither.

    Of a union only the root is read if it has the setting, and not each member's file.
    """
    models: Sequence[type[BaseModel]] = (SageConfig,)
    parts = key.split(".")
    for place, part in enumerate(parts):
        having = [model for model in models if part in model.model_fields]
        inside = parts[place + 1 : place + 2]
        annotations = [model.model_fields[part].annotation for model in having]
        models = [model for one in annotations for model in _having(one, inside)]
        if not models:
            found = _setting(".".join(parts[: place + 1]), having, part)
            return found if having and (found.open or not inside) else None
    return None


def settings_of(sections: Sequence[str]) -> dict[str, Setting]:
    """Return every setting of these sections, over all members of unions."""
    models = [(name, sections_of(SageConfig.model_fields[name].annotation)) for name in sections]
    return {one.key: one for name, every in models for one in _below(every, f"{name}.")}


@cache
def _settings(_members: tuple[type[Section], ...]) -> dict[str, Setting]:
    return {one.key: one for one in _below((SageConfig,), "")}


def member(section: str) -> str:
    """Return which member of a union applies where none is chosen."""
    return str(getattr(SageConfig.model_fields[section].default, UNIONS[section]))


def members(section: str) -> dict[str, type[BaseModel]]:
    """Return the members of a union by name; the one for any other name is called ""."""
    found = {}
    for one in sections_of(SageConfig.model_fields[section].annotation):
        names = get_args(one.model_fields[UNIONS[section]].annotation)
        found[str(names[0]) if names else ""] = one
    return found


def member_of(section: str, name: str) -> type[BaseModel]:
    """Return the section that `name` chooses in a union; its default's for an unknown name."""
    union = SageConfig.model_fields[section].annotation
    if isinstance(union, type) and issubclass(union, Extensible) and (kind := in_file(union, name)):
        return kind
    known = members(section)
    return known.get(name) or known.get("") or known[member(section)]


def own_settings(section: str, name: str) -> set[str]:
    """Return the settings that a member of a union shares with no class that it inherits from."""
    of = member_of(section, name)
    inherited = {key for base in of.__bases__ for key in getattr(base, "model_fields", ())}
    return set(of.model_fields) - inherited


def sections_at(path: Sequence[str]) -> Sequence[type[BaseModel]]:
    """Return the sections at `path`; more than one if it is a union."""
    models: Sequence[type[BaseModel]] = (SageConfig,)
    for part in path:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in sections_of(annotation)]
    return models


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field of this type may hold: none, one, or the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return list(annotation.members())
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for part in get_args(annotation) for model in sections_of(part)]
    return []


def _below(models: Sequence[type[BaseModel]], above: str) -> Iterator[Setting]:
    for key in dict.fromkeys(key for model in models for key in model.model_fields):
        having = [model for model in models if key in model.model_fields]
        types = [model.model_fields[key].annotation for model in having]
        inner = [section for one in types for section in sections_of(one)]
        if inner:
            yield from _below(inner, f"{above}{key}.")
        else:
            yield _setting(f"{above}{key}", having, key)


def _having(annotation: Any, inside: Sequence[str]) -> list[type[BaseModel]]:
    """Return the sections that a field may hold; of a union its root, if that has the next key."""
    is_union = isinstance(annotation, type) and issubclass(annotation, Extensible)
    if is_union and inside and inside[0] in annotation.model_fields:
        return [annotation]
    return sections_of(annotation)


def _setting(name: str, having: Sequence[type[BaseModel]], key: str) -> Setting:
    types = [_parts(model.model_fields[key].annotation) for model in having]
    return Setting(
        name,
        integer=all(parts <= {int, NoneType} for parts in types),
        cosmetic=all(is_cosmetic(model, key) for model in having),
        open=any(get_origin(part) is dict for parts in types for part in parts),
    )


def _parts(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return {part for one in get_args(annotation) for part in _parts(one)}
    return {annotation}


@dataclass(frozen=True)
class Layer:
    """Settings and what to call their origin, as `preset tiny` or `--set`.

    `typed` settings are meant for whatever is chosen. What is `beside` the layer before it was said
    in the same breath: a choice in one of both holds for both. Blocks of a `checked` layer, as of
    a shipped preset, were validated before.
    """

    origin: str
    values: Mapping[str, Any]
    typed: bool = False
    beside: bool = False
    checked: bool = False


@dataclass
class Merged:
    """Nested settings; for every leaf by its dotted name its origin and its layer's number.

    `blocks` holds what layers that are not `checked` say for each method and guide, chosen or not:
    by section, name and what to call it.
    """

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    blocks: list[tuple[str, str, Layer]] = field(default_factory=list)

    def put(self, values: Mapping[str, Any], origin: str, level: int = -1) -> None:
        """Lay `values`, nested or by dotted names, over what is there."""
        for name, value in leaves(values):
            *sections, key = name.split(".")
            place = self.values
            for section in sections:
                inner = place.get(section)
                place[section] = place = inner if isinstance(inner, dict) else {}
            place[key] = value
            self.origins[name], self.levels[name] = origin, level

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """The value of `section.key`."""
        inside = self.values.get(section)
        return inside.get(key, default) if isinstance(inside, dict) else default


def merge(layers: Iterable[Layer]) -> Merged:
    """All layers in order; what the final choices decide (KL, the authors' values) comes last."""
    layers, merged = list(layers), Merged()
    chosen = {section: _choices(layers, section) for section in UNIONS}
    final = {section: names[-1] if names else member(section) for section, names in chosen.items()}
    for level, layer in enumerate(layers):
        for key, section in BLOCKS.items():
            for name, settings in _mapping(layer.values.get(key)).items():
                block = Layer(f"{layer.origin}, {key}.{name}", _mapping(settings))
                if not layer.checked:
                    merged.blocks.append((section, name, block))
                if name == final[section]:
                    merged.put({section: block.values}, block.origin, level)
        values = dict(layer.values)
        for section, names in chosen.items():
            if section in values and names[level] != final[section]:
                inside = values.pop(section)
                if lasting := _lasting(section, inside, layer, names[level], final[section]):
                    values[section] = lasting
        merged.put(values, layer.origin, level)
    _settle_anchor(merged, final)
    _settle_compat(merged, layers, final)
    return merged


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
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return None if isinstance(found, Mapping) and found else found


def _choices(layers: Sequence[Layer], section: str) -> list[str]:
    """Return the member of a union that is chosen as each layer speaks."""
    now, found = member(section), []
    for level, layer in enumerate(layers):
        said = [_inside(layer.values, section, UNIONS[section])]
        for following in layers[level + 1 :]:
            if not following.beside:
                break
            said.append(_inside(following.values, section, UNIONS[section]))
        now = next((name for name in reversed(said) if name is not None), now)
        found.append(now)
    return found


def _lasting(section: str, inside: Any, layer: Layer, before: str, final: str) -> Any:
    """Return what a layer says of a section that holds although `final` is chosen, not `before`."""
    if not isinstance(inside, Mapping):
        return inside
    tag, now = UNIONS[section], member_of(section, final)
    bound = set() if layer.typed else own_settings(section, before)
    if not layer.typed and _inside({section: inside}, section, tag) is not None:
        bound = set(inside)
    return {
        key: value
        for key, value in inside.items()
        if key != tag
        and (
            key in LASTING.get(section, ())
            or (key not in bound and (key in now.model_fields or not _is_known(section, key)))
        )
    }


def _is_known(section: str, key: str) -> bool:
    """Return True if a member of the union has the setting; all of its members are imported."""
    return any(key in one.model_fields for one in members(section).values())


def _settle_anchor(merged: Merged, final: Mapping[str, str]) -> None:
    """Lay what belongs to the method below what was said of the anchor."""
    method = member_of("rl", final["rl"])
    assert issubclass(method, Method)
    own = {"kl": "reverse" if final["guide"] != "none" else method.kl_without_guide}
    for key, value in {**own, **method.anchored}.items():
        if f"anchor.{key}" not in merged.origins:
            merged.put({"anchor": {key: value}}, f"method {final['rl']}")


def _settle_compat(merged: Merged, layers: Sequence[Layer], final: Mapping[str, str]) -> None:
    """Lay the authors' values just below the layer that asks for them."""
    theirs = {
        "rl": lambda: official_settings(_decisive(merged, final)),
        "evaluation": official_evaluation_settings,
    }
    method = member_of("rl", final["rl"])
    for section, settings in theirs.items():
        if merged.get(section, "compat") != OFFICIAL:
            continue
        asks = max(i for i, one in enumerate(layers) if _inside(one.values, section, "compat"))
        for name, value in settings().items():
            of, _, key = name.partition(".")
            lacking = of == "rl" and key not in method.model_fields
            if not lacking and merged.levels.get(name, -1) < asks:
                merged.put({name: value}, f"compat {OFFICIAL}")


def _decisive(merged: Merged, final: Mapping[str, str]) -> tuple[str, ...]:
    """Return the choices that decide the authors' values: method, guide, tuning, prompt, ..."""
    scratch = final["model"] == "scratch"
    tuning = merged.get("model", "tuning", "full" if scratch else "lora")
    warm_up = (WARM_UP,) if not scratch and merged.get("sft", "enabled", True) else ()
    prompts = merged.get("prompt", "format", "paper")
    return (final["rl"], final["guide"], str(tuning), str(prompts), *warm_up)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _inside(values: Mapping[str, Any], section: str, key: str) -> str | None:
    """The name that a layer chooses; what is no name is left for the schema to refuse."""
    chosen = _mapping(values.get(section)).get(key)
    return chosen if isinstance(chosen, str) else None
