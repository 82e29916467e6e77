"""A file that holds one JSON object, read."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value

log = logging.getLogger(__name__)


class TornError(StoreError):
    """A file of ours that is torn, or was edited, so that it can't be read."""


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The object in `path`.

    Raises FileNotFoundError, and TornError with `remedy` as the next step where the file is torn.
    """
    try:
        held = json_value(path.read_bytes())
        if not isinstance(held, dict):
            raise ValueError("it holds no JSON object")
    except ValueError as error:
        raise TornError(f"{path} is torn or was edited: {error}", remedy) from None
    return held


def name_once(torn: TornError) -> None:
    """Warn of a file that is torn, unless this process has done so."""
    _warn(f"{torn.cause}; {torn.next_step}")


@cache
def _warn(text: str) -> None:
    log.warning("%s", text)
