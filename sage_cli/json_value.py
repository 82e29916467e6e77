"""JSON that may be torn: every fault of a text is one kind of error."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for any text that isn't JSON in UTF-8, or is nested too deeply to be read.
    """
    try:
        return json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
