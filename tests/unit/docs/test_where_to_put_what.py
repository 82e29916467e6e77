"""The table in docs/architecture.md: a thing that is added as a row says is there, and runs."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", PAGE, re.MULTILINE))

GUIDE = """
from typing import Literal
from sage_cli.guides.guide import Guide

class Steady(Guide):
    '''q is the same everywhere.'''

    name: Literal["steady"] = "steady"
    factor: float = 1.1
    '''The factor.'''
    rank: int = 3
    '''A name that a short one of sweeps has, and means another setting.'''

    def q(self, signals, step):
        return self.factor + 0 * signals.logps_BT
"""
METHOD = """
from typing import Literal
from sage_cli.methods.formulas import centred_advantages
from sage_cli.methods.method import PolicyGradient

class Halved(PolicyGradient):
    '''Half of the centred reward.'''

    algo: Literal["halved"] = "halved"
    share: float = 0.5
    '''The share of the centred reward.'''
    source = "this test: half of the centred reward"

    def advantages(self, inputs):
        return self.share * centred_advantages(inputs.rewards_PN).flatten()
"""
SETTING = """    seed: int = 0
    '''First evaluation seed that is used.'''
    patience: int = 3
    '''Validations without a gain before a training ends.'''
""".replace("'''", chr(34) * 3)
BENCHMARK = """_ENTRIES: tuple[DataSet | Group, ...] = (
    DataSet(
        "pub-quiz", "Pub quiz", "nobody/pub-quiz", ("test",), ("benchmarks/pub.jsonl",),
        question=(("problem",),), gold=(("answer", whole),), count=7,
    ),
"""
ANALYSIS = """
from sage_cli.analysis.analysis import Analysis
from sage_cli.reports.document import Document

def count(inputs):
    (answers,) = (of[0] for of in inputs.answers.values())
    return Document("counted", "problems", {"problems": len(answers.problems)})

COUNTED = Analysis("counted", "how many problems there are", count)
"""
IMPORT = "from sage_cli.analysis.counted import COUNTED"
PROGRAM = """
import sys
from pathlib import Path
from sage_cli.cli.app import app

def compute():
    from stored import Sample, answered, inputs
    from sage_cli.analysis.selection import find_analysis
    of = answered(Path("samples"), "a", {"p": [Sample()], "q": [Sample()]})
    print(find_analysis("counted").compute(inputs(of)).data)

for line in sys.argv[1:]:
    print(end="\\0", flush=True)
    try:
        app(line.split()) if line else compute()
    except SystemExit as end:
        assert not end.code, line
"""
ADDED = {
    "a guide": {"guides/steady.py": GUIDE},
    "a method": {"methods/halved.py": METHOD},
    "a setting": {"settings/evaluation.py": (SETTING.partition("    patience")[0], SETTING)},
    "a benchmark": {"problems/registry.py": (BENCHMARK.partition("    DataSet")[0], BENCHMARK)},
    "an analysis": {
        "analysis/counted.py": ANALYSIS,
        "analysis/selection.py": ("_ANALYSES = (", f"{IMPORT}\n_ANALYSES = (COUNTED, "),
    },
}
RUN = {
    "a guide": {
        "rl --guide steady --set guide.factor=1.2 --dry-run": "steady",
        "config explain guide.factor": "The factor.",
    },
    "a method": {
        "rl --algo halved --set rl.share=0.25 --dry-run": "halved",
        "config algos": "half of the centred reward",
    },
    "a setting": {
        "config explain evaluation.patience": "before a training ends",
        "config show --set evaluation.patience=5 --json": '"patience": 5',
    },
    "a benchmark": {
        "data list": "pub-quiz",
        "data show pub-quiz": "How many bones has a shark?",
    },
    "an analysis": {"analyze": "how many problems there are", "": "{'problems': 2}"},
}
"""Command lines and what is said; the empty one computes the analysis."""


LISTS = (
    "tests/unit/guides/test_choice.py",
    "tests/unit/config/test_mistakes.py",
    "tests/unit/config/test_inert.py",
    "tests/unit/trials/suites/test_declaration.py",
    "tests/unit/trials/sweep/test_read_space.py",
    "tests/unit/docs/test_method_pages.py",
    "tests/contract/test_guides.py",
    "tests/contract/test_methods.py",
)
"""Tests that hold lists of guides, methods or settings."""
ROW = "| `entropy-bonus` |"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Add all things to a copy of the code, as the table says."""
    folder = tmp_path_factory.mktemp("checkout")
    for part in ("sage_cli", "configs", "sweeps"):
        copytree(REPOSITORY / part, folder / part)  # what is compiled, too: times of files stay
    for name, content in (item for files in ADDED.values() for item in files.items()):
        file = folder / "sage_cli" / name
        text = content if isinstance(content, str) else file.read_text().replace(*content)
        assert not file.exists() or text != file.read_text()
        file.write_text(text.replace("'''", chr(34) * 3))
    return folder


def run_tests(folder, *chosen):
    """Run tests of the copy, and return what they print."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_an_added_guide_or_method_passes_the_tests_that_hold_lists_of_them(checkout):
    for part in ("tests", "docs", "examples"):
        copytree(REPOSITORY / part, checkout / part, ignore=ignore_patterns("__pycache__"))
    copy(REPOSITORY / "pyproject.toml", checkout)
    _, page = run_tests(checkout, "tests/unit/docs/test_method_pages.py")
    assert "docs/methods.md, Which method changes what, lacks the method's row" in page
    assert "1 failed" in page  # the added one
    page = checkout / "docs" / "methods.md"
    added = page.read_text().replace(ROW, f"| `halved` | the advantages |\n{ROW}", 1)
    page.write_text(added)
    code, printed = run_tests(checkout, *LISTS)
    assert code == 0, printed
    _, collected = run_tests(checkout, "--collect-only", *LISTS)
    for contract in ("TestEach", "test_a_method_keeps_the_contract"):
        assert re.search(rf"{contract}.*(steady|halved)", collected)


@pytest.fixture(scope="module")
def printed(checkout):
    """Return what each command line prints in the copy."""
    folder = checkout
    (folder / "benchmarks").mkdir()
    row = '{"problem": "How many bones has a shark?", "answer": "0"}\n'
    (folder / "benchmarks/pub.jsonl").write_text(7 * row)
    lines = [line for run in RUN.values() for line in run]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *lines],
        cwd=folder,
        capture_output=True,
        text=True,
        env={
            "SAGE_DATA": str(folder),
            "PYTHONPATH": f"{folder}:{REPOSITORY / 'tests/support'}",
            "PATH": "",
            "COLUMNS": "200",
            "HF_HUB_OFFLINE": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(lines, done.stdout.split("\0")[1:], strict=True))


@pytest.mark.parametrize("thing", ADDED)
def test_a_thing_is_added_where_the_table_says(thing, printed):
    places = re.findall(r"`([\w/]+(?:/|\.py))`", ROWS[thing])
    for name in ADDED[thing]:
        assert any(name == place or name.startswith(place) for place in places), name
    for line, words in RUN[thing].items():
        assert words in printed[line], line
