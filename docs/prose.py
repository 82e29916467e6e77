"""Check the prose of README and docs: sentences that are too long, and phrases of our own.

    python docs/prose.py           the pages above a limit; exit code 1 if there is one
    python docs/prose.py --all     every page with its counts, the sentences and the phrases

Code, tables, formulas and pages made from code (docs/reference) don't count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
LONGEST = 40
"""Words of a sentence."""
LIMIT = {"sentences": 1, "phrases": 2}
"""The most of each that a page may have."""
PHRASES = re.compile(
    r"\b(so that|drawn?|draws|goes on|go on with|told apart|held against|laid beside|lays beside"
    r"|what came out|is refused|are refused|from what|of which it)\b",
    re.IGNORECASE,
)
"""`so that` for a purpose is right; more than two a page seldom are."""
NOT_PROSE = (
    re.compile(r"```.*?```", re.DOTALL),
    re.compile(r"\$\$.*?\$\$", re.DOTALL),
    re.compile(r"^\s*\|.*$", re.MULTILINE),
    re.compile(r"^(?: {4,}|#).*$", re.MULTILINE),
    re.compile(r"!?\[([^\]]*)\]\([^)]*\)"),
)


def pages() -> list[Path]:
    """Return the pages that are written by hand."""
    found = [path for path in sorted(DOCS.rglob("*.md")) if "reference" not in path.parts]
    return [DOCS.parent / "README.md", *found]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; an item of a list, like a blank line, ends one."""
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda found: found[1] if found.groups() else "\n\n", text)
    paragraphs = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    parts = (re.split(r'(?<=[.!?])\s+(?=[A-Z`*("])', one) for one in paragraphs)
    return [" ".join(one.split()) for part in parts for one in part if one.strip()]


def main() -> int:
    """Print the pages above a limit, or all of them; return 1 if one is above, else 0."""
    everything, failed = "--all" in sys.argv[1:], False
    for page in pages():
        every = sentences(page.read_text())
        long = [one for one in every if len(one.split()) > LONGEST]
        phrases = [found[0] for one in every for found in PHRASES.finditer(one)]
        above = len(long) > LIMIT["sentences"] or len(phrases) > LIMIT["phrases"]
        failed |= above
        if above or everything:
            name = page.relative_to(DOCS.parent)
            print(f"{name}: {len(long)} sentences above {LONGEST} words, {len(phrases)} phrases")
        if everything:
            print(*(f"  {one}" for one in (*long, ", ".join(phrases))), sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
