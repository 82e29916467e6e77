"""The pages that are made from the code are current, and what they point to is there."""

import importlib
import re
import runpy
from pathlib import Path

import pytest
from recorded import meaning

REPOSITORY = Path(__file__).resolve().parents[3]
DOCS = REPOSITORY / "docs"
FILES = runpy.run_path(str(DOCS / "generate.py"))["files"]()


@pytest.mark.parametrize("name", FILES)
def test_a_made_file_is_current(name):
    """`python docs/generate.py` writes it anew."""
    assert (REPOSITORY / name).read_text() == FILES[name]


def test_every_file_of_the_map_is_there():
    page = (DOCS / "map.md").read_text()
    code = [f"sage_cli/{name}" for name in re.findall(r"`((?!tests/)[a-z_]+/[\w/]+\.py)`", page)]
    rest = re.findall(r"`((?:tests|configs|sweeps)/[\w/]+\.(?:py|yaml))`", page)
    assert len(code) > 5
    assert not [name for name in (*code, *rest) if not (REPOSITORY / name).is_file()]
    listed = re.search(r"^\| Tables (.+) and Figures (.+?) \|", page, re.MULTILINE)
    suites = {
        f"{kind}{number}"
        for kind, numbers in zip(("table", "figure"), listed.groups(), strict=True)
        for first, last in re.findall(r"(\d)(?:–(\d))?", numbers)
        for number in range(int(first), int(last or first) + 1)
    }
    assert len(rest) + len(suites) > 30
    assert suites == {file.stem for file in REPOSITORY.glob("configs/suites/[tf]*[1-9].yaml")}


def test_every_name_that_may_be_imported_is_there():
    page = (DOCS / "python.md").read_text()
    listed = re.findall(r"^\| (`(?:from )?sage_cli.*?) \|", page, re.MULTILINE)
    assert len(listed) > 7
    for names in listed:
        module = importlib.import_module("sage_cli")
        for name in re.findall(r"[\w.]+(?=`)", names):  # a module, then what it has
            if name.startswith("sage_cli."):
                module = importlib.import_module(name)
            elif name != "__all__":
                assert hasattr(module, name), f"{module.__name__}.{name}"


def test_keys_and_messages_of_the_pages_are_those_of_the_code():
    assert meaning("kl/shaped") != meaning("kl/reference")
    assert meaning("entropy/p99") == meaning("entropy/p50")
    assert meaning("time/step_s") == "Seconds of the whole step."  # and not that of time/*_s
    assert meaning("what/else") is None
    page = (DOCS / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    code = "\n".join(file.read_text() for file in (REPOSITORY / "sage_cli").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)  # sentences that go over lines
    assert len(messages) > 15
    assert not [words for words in messages if words not in joined]
