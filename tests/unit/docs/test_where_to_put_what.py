"""The table in docs/architecture.md: a thing that is added as a row says is there, and runs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

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
    '''The first evaluation seed.'''
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
TYPED = """
import json, sys
from pathlib import Path
from answered import Sample, answered, inputs
from typer.testing import CliRunner
from sage_cli.analysis.analyses import find_analysis
from sage_cli.cli.app import app
shown = {line: CliRunner().invoke(app, line.split()).output for line in json.loads(sys.argv[1])}
of = answered(Path("samples"), "a", {"p": [Sample()], "q": [Sample()]})
shown["computed"] = str(find_analysis("counted").compute(inputs(of)).data)
print(json.dumps(shown))
"""
"""Types commands, and computes the analysis that was added."""


ADDED = {
    "a guide": {"guides/steady.py": GUIDE},
    "a method": {"methods/halved.py": METHOD},
    "a setting": {
        "settings/sections/sampling.py": (SETTING[: SETTING.index("    patience")], SETTING)
    },
    "a benchmark": {
        "problems/registry.py": ("_ENTRIES: tuple[DataSet | Group, ...] = (\n", BENCHMARK)
    },
    "an analysis": {
        "analysis/measures/counted.py": ANALYSIS,
        "analysis/analyses.py": (
            "_ANALYSES = (",
            "from sage_cli.analysis.measures.counted import COUNTED\n_ANALYSES = (COUNTED, ",
        ),
    },
}
RUN = {
    "a guide": [("rl --guide steady --set guide.factor=1.2 --dry-run", "steady"),
                ("config explain guide.factor", "The factor.")],
    "a method": [("rl --algo halved --set rl.share=0.25 --dry-run", "halved"),
                 ("config algos", "half of the centred reward")],
    "a setting": [("config explain evaluation.patience", "before a training ends"),
                  ("config show --set evaluation.patience=5 --json", '"patience": 5')],
    "a benchmark": [("data list", "pub-quiz"),
                    ("data show pub-quiz", "How many bones has a shark?")],
    "an analysis": [("analyze", "how many problems there are"), ("computed", "{'problems': 2}")],
}  # fmt: skip
"""What is typed then, and shown."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What commands show where all of it was added to a copy of the code."""
    package, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("typed")
    for part in ("sage_cli", "configs", "sweeps"):
        copytree(REPOSITORY / part, package / part, ignore=ignore_patterns("__pycache__"))
    for name, content in ((name, text) for files in ADDED.values() for name, text in files.items()):
        file = package / "sage_cli" / name
        text = content if isinstance(content, str) else file.read_text().replace(*content)
        assert not file.exists() or text != file.read_text()
        file.write_text(text.replace("'''", chr(34) * 3))
    (folder / "benchmarks").mkdir()
    row = '{"problem": "How many bones has a shark?", "answer": "0"}\n'
    (folder / "benchmarks/pub.jsonl").write_text(7 * row)
    paths = f"{package}:{REPOSITORY / 'tests/support'}"
    lines = [line for commands in RUN.values() for line, _ in commands if line != "computed"]
    done = subprocess.run(
        [sys.executable, "-c", TYPED, json.dumps(lines)], cwd=folder, capture_output=True,
        text=True, timeout=200, env={"SAGE_DATA": str(folder), "PYTHONPATH": paths, "PATH": "",
                                     "COLUMNS": "200", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("thing", ADDED)
def test_a_thing_is_added_where_the_table_says(thing, shown):
    places = re.findall(r"`([\w/]+(?:/|\.py))`", ROWS[thing])
    for name in ADDED[thing]:
        assert any(name == place or name.startswith(place) for place in places), name
    for line, said in RUN[thing]:
        assert said in shown[line], shown[line]
