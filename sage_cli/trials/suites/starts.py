"""The initial policies of a suite that has several, and the settings that make each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.problems.generated.generator import Generator
from sage_cli.problems.load import benchmark_names
from sage_cli.problems.registry import generated
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.model import PretrainedModel

FEWEST_STARTS = 2
"""Initial policies where they are counted: the preset has one by itself."""


@dataclass(frozen=True)
class Start:
    """An initial policy: its name among several, and what differs from the preset's own one."""

    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def parse_starts(text: str) -> int | tuple[int | str, ...]:
    """Return initial policies as they are typed: `8`, `41,42,43`, `41..48` or names of models.

    Raises ConfigurationError for a number below two, for none, and for a range that ends before it
    begins.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    number = int(words[0]) if len(words) == 1 and words[0].isdecimal() else None
    if not words or (number is not None and number < FEWEST_STARTS):
        raise ConfigurationError(
            f"--initial-policies '{text}' asks for fewer than {FEWEST_STARTS} initial policies",
            "type how many, as 8, or list one by its seed, as 41..41",
        )
    if number is not None:
        return number
    return tuple(one for word in words for one in _parsed(word))


def _parsed(word: str) -> list[int | str]:
    seeds = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", word)
    if seeds is None:
        return [word]
    first, last = int(seeds[1]), int(seeds[2] or seeds[1])
    if last < first:
        raise ConfigurationError(
            f"--initial-policies: '{word}' ends before it begins", "type 41..48"
        )
    return list(range(first, last + 1))


def starts(wanted: int | tuple[int | str, ...], config: SageConfig) -> list[Start]:
    """Return the initial policies: so many, or those of the listed seeds or names of models.

    A model from scratch has a seed for its data and its SFT; a number counts them up from the
    configuration's. Raises ConfigurationError for seeds of a pretrained model, for names instead
    of seeds, for the same one twice, and where no generator draws the data.
    """
    pretrained = isinstance(config.model, PretrainedModel)
    if isinstance(wanted, int):
        listed: tuple[int | str, ...] = tuple(config.sft.seed + one for one in range(wanted))
    else:
        listed = wanted
    if pretrained and not all(isinstance(one, str) for one in listed):
        raise ConfigurationError(
            f"initial_policies counts or seeds initial policies, and {config.model.path} is not "  # type: ignore[union-attr]
            "trained from scratch: there is one of it",
            "list the names of several models, as initial_policies: [ORG/MODEL, ORG/OTHER]",
        )
    if not pretrained and any(isinstance(one, str) for one in listed):
        raise ConfigurationError(
            f"initial_policies are {', '.join(map(str, listed))}, and a model that is trained "
            "from scratch has no names",
            "list the seeds of their data, as initial_policies: [41, 42, 43]",
        )
    if len({*listed}) < len(listed):
        raise ConfigurationError(
            "an initial policy is listed twice in initial_policies", "list each once"
        )
    if pretrained:
        return [Start(str(one), {"model.path": one}) for one in listed]
    keys = (*_seeds_of_data(config), "sft.seed")
    return [Start(str(one), dict.fromkeys(keys, one)) for one in listed]


def _seeds_of_data(config: SageConfig) -> list[str]:
    """Return the settings that seed what is trained and measured on, one for each generator."""
    names = [config.data.sft.name, config.data.rl.name]
    names += benchmark_names(config.evaluation.benchmark)
    kinds = {entry.generator for name in names if (entry := generated(name)) is not None}
    keys = [_key(kind) for kind in kinds if "seed" in kind.settings.model_fields]
    if not keys:
        raise ConfigurationError(
            f"initial_policies draw data by seeds, and no generator draws {', '.join(names)}",
            "train on generated problems, as the preset tiny does",
        )
    return sorted(keys)


def _key(kind: type[Generator]) -> str:
    section = kind.name.replace("-", "_")
    if section not in DataSection.model_fields:
        section = f"generators.{kind.name}"
    return f"data.{section}.seed"
