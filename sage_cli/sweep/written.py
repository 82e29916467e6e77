"""A space as somebody wrote it: parameters with values, ranges or factors, not yet checked."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from sage_cli.config.base import Section
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Value, cell_key


def value_of(text: object) -> object:
    """What a text means: a number, true or false, or itself. YAML reads 1e-5 as a text."""
    if not isinstance(text, str):
        return text
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text.strip())


Written = Annotated[bool | int | float | str, BeforeValidator(value_of)]
Several = Annotated[
    tuple[Written, ...],
    BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,)),
]
DOMAINS = ("values", "choices", "times", "range")


class WrittenParameter(Section):
    """One parameter: `values` (or `choices`), `times` the configured value, or a `range`."""

    key: str | None = None
    """The setting; null: the one that the parameter's name means."""
    values: Several | None = None
    choices: Several | None = None
    """The same as `values`."""
    times: tuple[float, ...] | None = None
    range: tuple[Annotated[float, BeforeValidator(value_of)], ...] | None = None
    log: bool = False
    integer: bool = False
    when: dict[str, Several] = Field(default_factory=dict)
    """Other parameters and the values of theirs with which this one exists."""

    @model_validator(mode="after")
    def _is_one_domain(self) -> WrittenParameter:
        given = [name for name in DOMAINS if getattr(self, name) is not None]
        if len(given) != 1:
            kinds = " and ".join(given) or "none"
            raise ValueError(f"a parameter has one of {', '.join(DOMAINS)}; this one has {kinds}")
        if self.range is None:
            self._check_values(given[0])
        else:
            self._check_range(self.range)
        return self

    def _check_values(self, name: str) -> None:
        values: tuple[Value, ...] = getattr(self, name)
        if not values or len({cell_key({"": value}) for value in values}) < len(values):
            raise ValueError(f"{name} holds at least one value, and none of them twice")
        if self.log or self.integer:
            raise ValueError("log and integer are said of a range")

    def _check_range(self, ends: tuple[float, ...]) -> None:
        if len(ends) != 2 or not ends[0] < ends[1]:
            shown = ":".join(f"{end:g}" for end in ends)
            raise ValueError(f"a range goes from a lower to a higher number, and {shown} doesn't")
        least = 1 if self.integer else 0
        if self.log and (ends[0] < least or ends[0] == 0):
            raise ValueError(f"a logarithmic range starts above 0, not at {ends[0]:g}")


class WrittenSpace(Section):
    """A file of `sweeps/`, or what was typed."""

    guide: str | None = None
    """The guide that the space is about."""
    parameters: Annotated[dict[str, WrittenParameter], Field(min_length=1)]


def written_space(values: dict[str, Any], what: str) -> WrittenSpace:
    """`values` read; `what` is their name in the ConfigurationError that lists what is wrong."""
    try:
        return WrittenSpace.model_validate(values)
    except ValidationError as error:
        problems = dict.fromkeys(_sentence(one) for one in error.errors())
        raise ConfigurationError(
            "\n".join(f"{what}: {problem}" for problem in problems),
            "a parameter is written as `tau: {key: guide.tau, values: [0.2, 0.4]}` in a file below "
            "`parameters:`, and as tau=0.2|0.4 or tau=0.2:0.4 on the line",
        ) from None


def _sentence(complaint: Any) -> str:
    path = [str(part) for part in complaint["loc"]]
    if complaint["type"] == "extra_forbidden":
        *above, key = path
        known = WrittenParameter.model_fields if above else WrittenSpace.model_fields
        close = get_close_matches(key, known, n=1)
        where = above[-1] if above else "a space"
        return f"{where} has no '{key}'" + (f" (did you mean {close[0]}?)" if close else "")
    name = path[1] if path[:1] == ["parameters"] and len(path) > 1 else ".".join(path)
    if complaint["type"] == "missing":
        return f"'{path[-1]}' is missing"
    if complaint["type"] == "value_error":
        return f"{name}: {complaint['ctx']['error']}"
    inside = ".".join(path[2:3])
    message = complaint["msg"][0].lower() + complaint["msg"][1:]
    return f"{' '.join(filter(None, (name, inside)))} is {complaint.get('input')!r}: {message}"
