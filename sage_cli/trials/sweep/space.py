"""A search space: settings with values or a range each, and their points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import isfinite, prod
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from sage_cli.config.explain import meant
from sage_cli.config.schema import (
    UNIONS,
    Setting,
    setting,
    settings,
    union_members,
)
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import is_number
from sage_cli.settings.former_names import today_key
from sage_cli.settings.section import Section

if TYPE_CHECKING:  # a plan, which lists points, loads no Optuna
    from optuna.distributions import BaseDistribution

_OF_THEIR_SECTION = {
    "guide": (
        "tau",
        "rho",
        "alpha",
        "sigma",
        "phi_right",
        "phi_wrong",
        "epsilon",
        "cycles",
        "norm",
        "decay",
        "signal",
        "q_min",
        "q_max",
    ),
    "rl": (
        "algo",
        "advantage",
        "loss",
        "steps",
        "learning_rate",
        "scheduler",
        "warmup_ratio",
        "weight_decay",
        "max_grad_norm",
        "optimizer",
        "prompts_per_step",
        "rollouts_per_prompt",
        "steps_per_generation",
        "iterations",
        "dynamic_sampling",
        "overlong_buffer",
        "clip",
        "epsilon_low",
        "epsilon_high",
        "delta",
        "importance_sampling_level",
        "top_entropy_quantile",
        "entropy_coefficient",
        "entropy_target",
        "k",
    ),
    "rollout": ("temperature", "min_p", "top_p", "top_k", "max_tokens"),
    "anchor": (
        "kl",
        "beta",
        "schedule",
        "estimator",
        "head_tokens",
        "rows",
        "tokens",
        "uncertain_share",
        "reference",
        "ema",
        "ema_every",
        "reset_every",
    ),
    "model": ("tuning",),
    "model.lora": ("rank", "dropout"),
    "sft": ("epochs",),
}
SHORT = {
    "guide": "guide.name",
    "lr": "rl.learning_rate",
    "seed": "rl.seed",
    **{name: f"{section}.{name}" for section, names in _OF_THEIR_SECTION.items() for name in names},
}
"""Short names of settings. The table is closed, so that no guide or method that somebody adds
changes what a name means; every other setting is written with its section."""
_ELSEWHERE = "says where results go, not what they are"
_MEASURING = "says how trials are measured, and only trials measured alike are compared"
REFUSED = {
    "run": _ELSEWHERE,
    "tracking": _ELSEWHERE,
    "executor": "says where trials run, not what results they have",
    "sweep": "configures the search itself",
    "evaluation": _MEASURING,
    "sampling": _MEASURING,
    "grading": _MEASURING,
    "rl.seed": "distinguishes the runs of a trial: --seeds N trains every trial with N seeds",
}
"""The reasons why these sections and settings can't be searched."""


def find_key(name: str) -> str:
    """Return the setting that `name` means: a full key, or one of the short names.

    Raises ConfigurationError for one that is unknown, not short, or not to be searched.
    """
    key = name if "." in name else SHORT.get(name) or _only_reason_against(name)
    resolved = setting(key)
    if resolved is None:
        searched = [key for key, described in settings().items() if not _reason_against(described)]
        close = meant(name, searched if "." in name else SHORT)
        raise ConfigurationError(f"there is no setting '{name}'{close}")
    if reason := _reason_against(resolved):
        raise ConfigurationError(f"{key} can't be searched: it {reason}")
    return today_key(key)


def is_whole(key: str) -> bool:
    """Return True if the setting takes whole numbers only."""
    resolved = setting(key)
    return resolved is not None and resolved.integer


def choice_for(key: str) -> str | None:
    """Return the setting that chooses the class of `key`'s section, such as rl.algo."""
    section = key.partition(".")[0]
    choice = f"{section}.{UNIONS[section]}" if section in UNIONS else None
    return None if choice == key else choice


def members_with(key: str) -> tuple[str, ...]:
    """Return the names of the guides, or methods, that have the setting `key`; empty for all."""
    section, _, name = key.partition(".")
    kinds = union_members(section)
    having = tuple(member for member, kind in kinds.items() if name in kind.model_fields)
    return having if len(having) < len(kinds) else ()


def _reason_against(described: Setting) -> str | None:
    """Return why a search over the setting makes no sense."""
    for name in (described.key, described.key.partition(".")[0]):
        if name in REFUSED:
            return REFUSED[name]
    return "changes no result" if described.cosmetic else None


def _only_reason_against(name: str) -> str:
    """Return the setting that ends in `name` if it can't be searched, else the name itself.

    Raises ConfigurationError with the settings that the user may mean.
    """
    having = [described for described in settings().values() if described.name == name]
    searched = [described.key for described in having if not _reason_against(described)]
    if searched:
        raise ConfigurationError(f"'{name}' is not a short name: write {' or '.join(searched)}")
    return having[0].key if having else name


SettingValue = float | int | str | bool
Point = Mapping[str, SettingValue]
"""Values by setting, such as {"guide.tau": 0.465, "guide.rho": 0.775}."""
LISTED = 10_000
"""The longest range of whole numbers, and the largest space, whose members are listed."""


def value_of(given: object) -> SettingValue:
    """Return the number, true or false, or word that was written: YAML reads 1e-5 as a text."""
    if not isinstance(given, str):
        if isinstance(given, bool | int) or (isinstance(given, float) and isfinite(given)):
            return given
        raise ValueError(f"a value is a finite number, a word, true or false, not {given!r}")
    for number in (int, float):
        with suppress(ValueError, OverflowError):
            if isfinite(read := number(given)):
                return read
    return {"true": True, "false": False}.get(given.lower(), given.strip())


def in_short_form(value: object) -> str:
    """Return a value as plans show it: `0.465`, `true` or a word."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def value_key(value: SettingValue) -> tuple[str, SettingValue]:
    """Return a key that is equal for 1 and 1.0, and differs for 1 and true."""
    return ("number" if is_number(value) else type(value).__name__, value)


def point_key(point: Point) -> tuple[tuple[str, tuple[str, SettingValue]], ...]:
    """Return what tells points apart: 1 and 1.0 are one value, 1 and true are two."""
    return tuple(sorted((key, value_key(value)) for key, value in point.items()))


def _holds(values: Sequence[SettingValue], value: SettingValue) -> bool:
    return value_key(value) in map(value_key, values)


def several(given: object) -> tuple[SettingValue, ...]:
    """Return the values of a list, or the one value that was written for a list of one."""
    values = tuple(map(value_of, given if isinstance(given, list | tuple) else (given,)))
    if not values:
        raise ValueError("a list of values needs at least one")
    return values


Several = Annotated[tuple[SettingValue, ...], BeforeValidator(several)]


class _Parameter(Section):
    """A setting that is searched.

    It exists only in points where each setting of `when` has one of the values given for it.
    """

    key: str
    when: dict[str, Several] = Field(default_factory=dict)

    def exists_in(self, point: Point) -> bool:
        """Return True if the values of `point` meet every condition."""
        return all(key in point and _holds(values, point[key]) for key, values in self.when.items())


class Values(_Parameter):
    """One of these, in this order."""

    values: Several

    @property
    def options(self) -> Sequence[SettingValue]:
        """All values, in the order of a grid."""
        return self.values

    @property
    def examples(self) -> Sequence[SettingValue]:
        """The values."""
        return self.values

    @property
    def in_words(self) -> str:
        """`0.1, 0.3 or 0.5`."""
        *others, last = (in_short_form(value) for value in self.values)
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def distribution(self) -> BaseDistribution:
        """Optuna's categories."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)

    @property
    def numeric(self) -> bool:
        """True if all values are numbers, so that they have an order."""
        return all(map(is_number, self.values))

    def holds(self, value: SettingValue) -> bool:
        """Return True if `value` is one of the values."""
        return _holds(self.values, value)


class Range(_Parameter):
    """Any number from the lower to the higher end, both included; `log` searches by factors."""

    log: bool = False
    integer: bool = False
    range: tuple[float, ...]

    @property
    def options(self) -> Sequence[SettingValue] | None:
        """The whole numbers of a short range of them; None for any other."""
        low, high = self.range
        return range(int(low), int(high) + 1) if self.integer and high - low < LISTED else None

    @property
    def examples(self) -> Sequence[SettingValue]:
        """Both ends."""
        return self.range

    @property
    def in_words(self) -> str:
        """`from 0.2 to 0.8`, and how it is searched where that is not evenly."""
        low, high = (in_short_form(end) for end in self.range)
        kind = " in whole numbers" if self.integer else ""
        return f"from {low} to {high}{kind}{', logarithmically' if self.log else ''}"

    @property
    def distribution(self) -> BaseDistribution:
        """Optuna's range of floats or integers."""
        from optuna.distributions import FloatDistribution, IntDistribution

        low, high = self.range
        if self.integer:
            return IntDistribution(int(low), int(high), log=self.log)
        return FloatDistribution(low, high, log=self.log)

    def holds(self, value: SettingValue) -> bool:
        """Return True if `value` lies in the range, and is whole where that is wanted."""
        if not is_number(value) or not self.range[0] <= value <= self.range[1]:
            return False
        return not self.integer or float(value).is_integer()

    @field_validator("range")
    @classmethod
    def _goes_up(cls, ends: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        written = ":".join(f"{end:g}" for end in ends)
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise ValueError(f"a range goes from a lower to a higher number, and {written} doesn't")
        if info.data.get("log") and ends[0] <= 0:
            raise ValueError(f"a logarithmic range starts above 0, not at {ends[0]:g}")
        if not info.data.get("integer"):
            return ends
        if not all(end.is_integer() for end in ends):
            raise ValueError(f"a range of whole numbers begins and ends with one, not as {written}")
        return tuple(map(int, ends))


Parameter = Annotated[
    Annotated[Values, Tag("values")] | Annotated[Range, Tag("range")],
    Discriminator(lambda given: "range" if "range" in dict(given) else "values"),
]


class Space(Section):
    """Parameters by short name, each after those on which its existence depends."""

    parameters: Annotated[dict[str, Parameter], Field(min_length=1)]

    @property
    def keys(self) -> dict[str, str]:
        """Settings by short name."""
        return {name: parameter.key for name, parameter in self.parameters.items()}

    @property
    def in_words(self) -> dict[str, str]:
        """`tau from 0.2 to 0.8` by short name, with the condition of one that some points lack."""
        return {
            name: f"{name} {parameter.in_words}"
            + "".join(
                f" (with {key} {' or '.join(map(in_short_form, values))})"
                for key, values in parameter.when.items()
            )
            for name, parameter in self.parameters.items()
        }

    @property
    def _by_key(self) -> dict[str, Values | Range]:
        return {parameter.key: parameter for parameter in self.parameters.values()}

    @property
    def ranges(self) -> list[str]:
        """The short names of the parameters that no list of values describes."""
        return [name for name, parameter in self.parameters.items() if isinstance(parameter, Range)]

    @property
    def lists(self) -> dict[str, Values]:
        """The parameters with a list of values, by short name."""
        parameters = self.parameters.items()
        return {name: values for name, values in parameters if isinstance(values, Values)}

    @property
    def conditional(self) -> list[str]:
        """The short names of the parameters that some points lack."""
        return [name for name, parameter in self.parameters.items() if parameter.when]

    @property
    def size(self) -> int | None:
        """An upper bound of the number of points; None where a parameter's values aren't listed."""
        options = [parameter.options for parameter in self.parameters.values()]
        return None if None in options else prod(map(len, filter(None, options)))

    def points(self) -> Iterator[Point]:
        """Yield every point once, the last parameter fastest, without what doesn't exist in it.

        Raises ConfigurationError where a parameter has a range that isn't listed.
        """
        endless = [name for name, parameter in self.parameters.items() if parameter.options is None]
        if endless:
            raise ConfigurationError(
                f"{' and '.join(endless)} has a range, which no list of points exhausts",
                f"write values, for example {endless[0]}=0.1|0.2|0.3, or choose --sampler tpe",
            )
        met = set()
        for values in product(*(parameter.options or () for parameter in self.parameters.values())):
            point: dict[str, SettingValue] = {}
            for parameter, value in zip(self.parameters.values(), values, strict=True):
                if parameter.exists_in(point):
                    point[parameter.key] = value
            if (key := point_key(point)) not in met:
                met.add(key)
                yield point

    def listed(self) -> list[Point] | None:
        """Return every point; None where not all can be listed, or they are very many."""
        return None if self.size is None or self.size > LISTED else list(self.points())

    def __contains__(self, point: Point) -> bool:
        """Return True if `point` has exactly the parameters that it should, with their values."""
        existing = {key: domain for key, domain in self._by_key.items() if domain.exists_in(point)}
        same = existing.keys() == point.keys()
        return same and all(existing[key].holds(value) for key, value in point.items())

    def plain(self) -> list[dict[str, Any]]:
        """Return the parameters in types that JSON has."""
        return [
            {"name": name, **parameter.model_dump(exclude=None if parameter.when else {"when"})}
            for name, parameter in self.parameters.items()
        ]


def describe_point(point: Mapping[str, object]) -> str:
    """The point's values by short name: `tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
