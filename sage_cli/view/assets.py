"""The files of the page, which ship with the package."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("page")
FILES = frozenset(
    str(path.relative_to(PAGE)).replace("\\", "/") for path in PAGE.rglob("*") if path.is_file()
)
"""Their paths below PAGE; nothing else is served."""


def file_of(name: str) -> Path:
    """Return the path of one of FILES. Raises KeyError for any other name."""
    if name not in FILES:
        raise KeyError(name)
    return PAGE / name
