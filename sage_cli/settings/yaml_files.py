"""Read YAML that may be too large, too deep or broken."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sage_cli.errors import ConfigurationError

MOST_NODES, MOST_DEPTH = 100_000, 100
"""Values that a file may have with its aliases written out, and levels that it may nest them."""
_LIBYAML = getattr(yaml, "CSafeLoader", None)
"""Ten times faster; not every build of PyYAML has it, and it says less of what it can't read."""


class TooLargeError(yaml.YAMLError):
    """YAML that would be too much to walk through, however short it is."""


def yaml_value(text: str) -> Any:
    """Parse `text`. Raises yaml.YAMLError with the message of PyYAML's own reader."""
    try:
        if _LIBYAML is not None:
            with suppress(yaml.reader.ReaderError, yaml.MarkedYAMLError):
                _check_size(text)
                return yaml.load(text, Loader=_LIBYAML)
        else:
            _check_size(text)
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise
    except Exception as error:  # a date of the month 99, a number of 20,000 digits, ...
        raise yaml.YAMLError(str(error)) from error


def _check_size(text: str) -> None:
    """Raise TooLargeError for deep nesting, and for aliases that stand for more than MOST_NODES.

    libyaml makes values by recursion in C, which ends the process where they are nested too deep.
    """
    size_of: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    size = 0
    for event in yaml.parse(text, Loader=_LIBYAML or yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, size))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                size_of[anchor] = size - before
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in [anchor for anchor, _ in opened]:
                raise TooLargeError(f"*{event.anchor} is used inside its own definition")
            size += size_of.get(str(event.anchor), 0)
        size += isinstance(event, yaml.NodeEvent)
        if size > MOST_NODES:
            raise TooLargeError(
                f"with its aliases written out it has more than {MOST_NODES:,} values"
            )
        if len(opened) > MOST_DEPTH:
            raise TooLargeError(f"it is nested more than {MOST_DEPTH} levels deep")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file (JSON is YAML) that holds a mapping; ConfigurationError otherwise."""
    try:
        values = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}", "check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{path} can't be read as YAML: {reason}") from None
    except RecursionError:
        raise ConfigurationError(f"{path} can't be read: it is nested too deeply") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigurationError(
            f"{path} contains no settings: its top level must be sections, such as `rl:`"
        )
    return values


@cache
def _parsed(text: str) -> Any:
    """Return the content of YAML; of JSON too, which is YAML and read 50 times faster as itself.

    A suite reads the same few presets a hundred times, and a text says the same each time.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return yaml_value(text)
