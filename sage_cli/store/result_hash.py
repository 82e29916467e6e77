"""Hashes of what determines a result."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sage_cli import RESULT_VERSION

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def identity_of(kind: str, determinants: Any) -> str:
    """Return the hash of settings, data, parent and the code's result version, in hexadecimal."""
    # sorted keys: the order in which settings were typed names no other run. The version is part of
    # it, so that a release that computes something else shares no results with an earlier one.
    text = json.dumps([RESULT_VERSION, kind, determinants], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(determinants: Any) -> str:
    """Return sixteen hexadecimal digits that name the folder of `determinants`."""
    return hashlib.sha256(_canonical(determinants).encode()).hexdigest()[:16]
