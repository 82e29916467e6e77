"""What is searched: parameters with their values, read from a file of `sweeps/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from sage_cli.config.base import Section
from sage_cli.config.presets import read_yaml, shipped
from sage_cli.errors import ConfigurationError

Cell = Mapping[str, float]
"""Values by setting, as {"guide.tau": 0.465, "guide.rho": 0.775}."""


class ParameterFile(Section):
    """One parameter of a space file: absolute `values`, or `times` the configured value."""

    key: str
    values: tuple[float, ...] | None = None
    times: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ParameterFile:
        if (self.values is None) == (self.times is None):
            raise ValueError("a parameter has either `values` or `times`")
        given = self.values or self.times or ()
        if not given or len(set(given)) < len(given):
            raise ValueError("at least one value, and none of them twice")
        return self


class SpaceFile(Section):
    """A file of `sweeps/`."""

    guide: str | None = None
    parameters: Annotated[dict[str, ParameterFile], Field(min_length=1)]


@dataclass(frozen=True)
class Space:
    """A grid: short names of parameters, the settings they stand for, their values."""

    name: str
    keys: Mapping[str, str]
    values: Mapping[str, tuple[float, ...]]

    def cells(self) -> Iterator[Cell]:
        """Every combination, the last parameter fastest."""
        for combination in product(*self.values.values()):
            yield dict(zip(self.keys.values(), combination, strict=True))


def space_file(name: str) -> SpaceFile:
    """The file that `--space name` means: `tau,rho` is the shipped tau-rho.yaml; or a path."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = shipped("sweeps") / f"{name.replace(',', '-').replace(' ', '')}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in shipped("sweeps").glob("*.yaml"))
        close = get_close_matches(path.stem, known, n=1)
        raise ConfigurationError(
            f"there is no search space '{name}'; there are {', '.join(known)}",
            f"did you mean {close[0]}?" if close else "or give the path of a YAML file",
        )
    try:
        return SpaceFile.model_validate(read_yaml(path))
    except ValidationError as error:
        complaints = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ConfigurationError(f"{path} is no search space: " + "; ".join(complaints)) from None


def resolve(name: str, file: SpaceFile, configured: Mapping[str, object]) -> Space:
    """The space in absolute values; `configured` maps settings to what the configuration says."""
    values = {}
    for short, parameter in file.parameters.items():
        if parameter.values is not None:
            values[short] = parameter.values
            continue
        centre = configured.get(parameter.key)
        if not isinstance(centre, int | float):
            raise ConfigurationError(
                f"the space '{name}' multiplies {parameter.key}, which is {centre!r} here",
                "choose a guide that has it, or give the space's values themselves",
            )
        values[short] = tuple(round(factor * centre, 6) for factor in parameter.times or ())
    keys = {short: parameter.key for short, parameter in file.parameters.items()}
    return Space(name, keys, values)
