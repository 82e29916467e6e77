"""From `--space` to a search space: a shipped name, a file, or the space itself."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from sage_cli.config.presets import read_yaml, shipped
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.checked import checked
from sage_cli.sweep.keys import guides_with, key_of
from sage_cli.sweep.line import is_line, parse_line
from sage_cli.sweep.resolved import resolved
from sage_cli.sweep.space import Space
from sage_cli.sweep.written import WrittenSpace, written_space


def read_space(text: str, config: SageConfig) -> Space:
    """The space that `text` means, every key and value checked against the schema.

    Raises ConfigurationError that lists all problems.
    """
    written = _written(text)
    if written.guide is not None and written.guide != config.guide.name:
        raise ConfigurationError(
            f"the space '{text}' is about guide {written.guide}, "
            f"and the configuration has guide {config.guide.name}",
            f"add --guide {written.guide}",
        )
    return checked(resolved(written, config), config)


def guide_of(text: str) -> str | None:
    """The guide that a space is about: what its file says, or the only one with its settings.

    None where it chooses the guide itself, or says nothing of one.
    """
    written = _written(text)
    keys = []
    for name, one in written.parameters.items():
        with suppress(ConfigurationError):  # `read_space` says what is wrong with it
            keys.append(key_of(one.key or name))
    if written.guide is not None or "guide.name" in keys:
        return written.guide
    having = [set(guides_with(key)) for key in keys if key.startswith("guide.")]
    guides = set.intersection(*having) if having else set()
    return guides.pop() if len(guides) == 1 else None


def _written(text: str) -> WrittenSpace:
    if is_line(text):
        return parse_line(text)
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        path = shipped("sweeps") / f"{text.replace(',', '-').replace(' ', '')}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in shipped("sweeps").glob("*.yaml"))
        close = get_close_matches(path.stem, known, n=1)
        raise ConfigurationError(
            f"there is no search space '{text}'; there are {', '.join(known)}",
            f"did you mean {close[0]}?"
            if close
            else 'or give the path of a YAML file, or the space itself, as "tau=0.2:0.8,rho=0.1:1"',
        )
    return written_space(read_yaml(path), str(path))
