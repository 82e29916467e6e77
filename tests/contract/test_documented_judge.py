"""The judge of docs/grading.md, as it stands there, keeps the contract that is written under it."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "grading.md"


def documented():
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    for block in blocks:
        if "Judge" in block:
            exec(block, names)
    return names["TestMoves"]


CONTRACT = documented()


@pytest.mark.parametrize("name", [name for name in dir(CONTRACT) if name.startswith("test_")])
def test_it_keeps_the_contract(name):
    getattr(CONTRACT(), name)()
