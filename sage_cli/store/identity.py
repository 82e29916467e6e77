"""What determines a result, as a hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sage_cli import RESULT_VERSION


def identity_of(kind: str, determinants: Any) -> str:
    """The hash of what determines a result: settings, data, parent, and the code's result version."""  # noqa: E501
    text = json.dumps([RESULT_VERSION, kind, determinants], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
