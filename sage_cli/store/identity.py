"""What determines a result, as a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sage_cli import RESULT_VERSION


def identity_of(kind: str, determinants: Any) -> str:
    """The hash of what determines a result: settings, data, parent, and the code's result version."""  # noqa: E501
    text = json.dumps([RESULT_VERSION, kind, determinants], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def content_of(rows: Iterable[Any]) -> str:
    """The hash of data rows (dataclasses or tuples), wherever they were read from."""
    digest = hashlib.sha256()
    for row in rows:
        plain = row if isinstance(row, tuple) else asdict(row)
        digest.update(json.dumps(plain, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:16]
