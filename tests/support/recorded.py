"""The keys of metrics.jsonl that docs/reference/records.md explains."""

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/records.md"


@cache
def explained():
    """Key, or pattern of keys -> what it is."""
    return dict(re.findall(r"^\| `(\S+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))


def meaning(key):
    """Return the meaning of a key of metrics.jsonl; None for one that the page doesn't have."""
    meanings = explained()
    pattern = next((name for name in meanings if fnmatchcase(key, name)), "")
    return meanings.get(key) or meanings.get(pattern)
