"""Type commands in an empty folder."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from json_answers import one_object
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.cli.console import console
from sage_cli.problems import arithmetic
from sage_cli.progress import Silent

PROGRAM = """
import json, sys
from typer.testing import CliRunner
from sage_cli.cli.app import app
exec(sys.argv[2])
results = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
told = {"modules": sorted(sys.modules), "printed": [result.stdout for result in results]}
print(json.dumps({"codes": [result.exit_code for result in results], **told}))
"""


@dataclass(frozen=True)
class Typed:
    """What a command left: exit code, stdout, the words of its panel or table, and its folder."""

    code: int
    stdout: str
    words: str
    folder: Path

    @property
    def written(self):
        """Everything that lies in the folder now."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    @property
    def answer(self):
        """The object that it printed."""
        assert self.code == 0, self.words
        return json.loads(self.stdout)

    def refused(self, *said, code=2):
        """It was a mistake, of which a panel says this; 75 is the code of what may pass."""
        assert self.code == code, self.words
        for words in said:
            assert words in self.words


arithmetic._problem = cache(arithmetic._problem)  # commands make the same hundreds of times


@pytest.fixture
def sage(monkeypatch, tmp_path):
    """`sage(...)` in a folder of its own; without the Hub. An answer in JSON is one object."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(console, "width", 200)  # it may have read the variable already

    def type_(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if "--json" in words and result.stdout.startswith("{"):
            one_object(result.stdout)
        said = " ".join(re.findall(r"[^\s│╭╮╰╯─┃━┏┓┗┛]+", result.output))
        return Typed(result.exit_code, result.stdout, said, folder)

    return type_


@pytest.fixture
def answer(sage):
    """The object that a command prints."""
    return lambda *words: sage(*words, "--json").answer


@pytest.fixture
def alone():
    """Type commands in a process of their own: which modules it has loaded, what was printed."""

    def type_(*commands, first=""):
        typed = json.dumps([list(map(str, words)) for words in commands])
        program = [sys.executable, "-c", PROGRAM, typed, first]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["codes"] == [0] * len(commands), told["printed"]
        return set(told["modules"]), told["printed"]

    return type_


class Told(Silent):
    """A progress that remembers what it was told is being done."""

    def __init__(self):
        self.done = []

    def doing(self, text):
        self.done.append(text)
        return super().doing(text)


@pytest.fixture
def told():
    return Told()
