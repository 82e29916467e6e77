"""A file that holds one JSON object, read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The object in `path`.

    Raises FileNotFoundError, and StoreError with `remedy` as the next step where the file is torn.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(held, dict):
            raise ValueError("it holds no JSON object")
    except ValueError as error:
        raise StoreError(f"{path} is torn or was edited: {error}", remedy) from None
    return held
