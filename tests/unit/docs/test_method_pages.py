"""Every method has its row on the page of methods, and what differs from its source on another."""

import re
from pathlib import Path

import pytest

from sage_cli.methods.loop import Method
from sage_cli.settings.section import built_in

DOCS = Path(__file__).resolve().parents[3] / "docs"
PLAIN = {"grpo", "bnpo", "dapo", "dr-grpo"}
"""Those that the page compares the others with."""
EXPLORING = {name: method for name, method in built_in(Method).items() if name not in PLAIN}


def named_in(page, heading):
    """The names in the first column of the table below a heading, with * where one follows."""
    below = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    first = [line.split("|")[1] for line in table[0].splitlines()]
    return {
        name: bool(star)
        for column in first
        for name, star in re.findall(r"`([\w-]+)`(?:\]\([^)]*\))?(\*?)", column)
        if not name.startswith("--")
    }


CHANGES = named_in("methods.md", "Which method changes what")
DIFFERENCES = named_in("fidelity.md", "Methods of exploration")


@pytest.mark.parametrize("name", EXPLORING)
def test_a_method_has_its_rows(name):
    method = EXPLORING[name]
    assert name in CHANGES, "docs/methods.md, Which method changes what, lacks the method's row"
    assert CHANGES[name] == (method.fidelity == "reduced")
    if method.differs:
        assert name in DIFFERENCES, "docs/fidelity.md lacks the method's row"


def test_rows_are_of_methods_that_there_are():
    assert CHANGES.keys() <= EXPLORING.keys()
    assert DIFFERENCES.keys() <= EXPLORING.keys()
