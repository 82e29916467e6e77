"""Merge layers of settings, later over earlier, and remember where each value came from.

Five rules go beyond plain merging, each because a choice brings settings of its own:
choosing another guide or kind of model drops the settings of the one before, and choosing another
advantage the options of the one before; choosing a guide
takes a preset's values for it (the top-level key `guides`); choosing an algorithm takes its row
of the table; `compat: official`, of `rl` or `evaluation`, takes the authors' values of what was not
said beside it or after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_cli.config.algorithms import ALGORITHMS, algorithm_layer, kl_of
from sage_cli.config.compat import (
    OFFICIAL,
    WARM_UP,
    official_evaluation_settings,
    official_settings,
)

CHOICES = {"guide": "name", "model": "kind"}
"""Sections that are unions, and the key that tells their members apart."""


@dataclass(frozen=True)
class Layer:
    """Settings and what to call their origin, as `preset tiny` or `--set`."""

    origin: str
    values: Mapping[str, Any]


@dataclass
class Merged:
    """Nested settings and, for every leaf by its dotted name, the origin.

    `guides` holds what the layers said for each guide, chosen or not.
    """

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    guides: dict[str, list[Layer]] = field(default_factory=dict)

    def put(self, values: Mapping[str, Any], origin: str) -> None:
        """Lay `values`, nested or by dotted names, over what is there."""
        for name, value in leaves(values):
            *sections, key = name.split(".")
            place = self.values
            for section in sections:
                inner = place.get(section)
                place[section] = place = inner if isinstance(inner, dict) else {}
            place[key] = value
            self.origins[name] = origin

    def drop(self, section: str) -> None:
        """Forget everything that was set of a section."""
        self.values.pop(section, None)
        self.origins = {k: v for k, v in self.origins.items() if not k.startswith(f"{section}.")}

    def drop_options(self) -> None:
        """Forget the options of the advantage before."""
        self.values.get("rl", {}).pop("advantage_options", None)
        before = "rl.advantage_options"
        self.origins = {k: v for k, v in self.origins.items() if not k.startswith(before)}

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """The value of `section.key`."""
        inside = self.values.get(section)
        return inside.get(key, default) if isinstance(inside, dict) else default


def merge(layers: Iterable[Layer]) -> Merged:
    """All layers in order; what the final choices decide (KL, the authors' values) comes last."""
    merged = Merged()
    layers = list(layers)
    for layer in layers:
        values = dict(layer.values)
        of_guides = {
            name: Layer(f"{layer.origin}, guides.{name}", given or {})
            for name, given in (values.pop("guides", None) or {}).items()
        }
        for name, settings in of_guides.items():
            merged.guides.setdefault(name, []).append(settings)
        before = merged.get("guide", "name")
        for section, key in CHOICES.items():
            chosen = _inside(values, section, key)
            if chosen not in (None, merged.get(section, key, chosen)):
                merged.drop(section)
        guide = _inside(values, "guide", "name") or before
        fitting = [of_guides[guide]] if guide in of_guides else []
        for settings in fitting if guide == before else merged.guides.get(guide, []):
            merged.put({"guide": settings.values}, settings.origin)
        algorithm, advantage = (_inside(values, "rl", key) for key in ("algo", "advantage"))
        row = algorithm_layer(algorithm) if algorithm in ALGORITHMS else {}
        advantage = advantage or row.get("rl", {}).get("advantage")
        if advantage not in (None, merged.get("rl", "advantage", advantage)):
            merged.drop_options()
        if row:
            merged.put(row, f"algorithm {algorithm}")
        merged.put(values, layer.origin)
    if "anchor.kl" not in merged.origins:
        algorithm = _inside(merged.values, "rl", "algo") or "grpo"
        if algorithm in ALGORITHMS:
            kl = kl_of(algorithm, guided=merged.get("guide", "name", "none") != "none")
            merged.put({"anchor": {"kl": kl}}, f"algorithm {algorithm}")
    if merged.get("rl", "compat") == OFFICIAL:
        _settle_compat(merged, layers, "rl", official_settings(chosen_for_compat(merged)))
    if merged.get("evaluation", "compat") == OFFICIAL:
        _settle_compat(merged, layers, "evaluation", official_evaluation_settings())
    return merged


def chosen_for_compat(merged: Merged) -> tuple[str, ...]:
    """What the authors' values depend on: algorithm, guide, tuning, prompt format, warm-up."""
    scratch = merged.get("model", "kind") == "scratch"
    choices = (
        merged.get("rl", "algo", "grpo"),
        merged.get("guide", "name", "none"),
        merged.get("model", "tuning", "full" if scratch else "lora"),
        merged.get("prompt", "format", "paper"),
    )
    warm_up = (WARM_UP,) if not scratch and merged.get("sft", "enabled", True) else ()
    return (*map(str, choices), *warm_up)


def _settle_compat(
    merged: Merged, layers: Sequence[Layer], section: str, theirs: Mapping[str, Any]
) -> None:
    """Lay the authors' values just below the layer that asks for them in `section`."""
    asks = max(i for i, layer in enumerate(layers) if _inside(layer.values, section, "compat"))
    above = {layer.origin for layer in layers[asks:]}
    guide = merged.get("guide", "name", "none")
    for name, value in theirs.items():
        if merged.origins.get(name, "").removesuffix(f", guides.{guide}") not in above:
            merged.put({name: value}, f"compat {OFFICIAL}")


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; empty mappings and lists are leaves."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def _inside(values: Mapping[str, Any], section: str, key: str) -> str | None:
    """The name that a layer chooses; what is no name is left for the schema to refuse."""
    inside = values.get(section)
    chosen = inside.get(key) if isinstance(inside, Mapping) else None
    return chosen if isinstance(chosen, str) else None
