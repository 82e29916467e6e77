"""Type commands in an empty folder."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from json_answers import one_object
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.cli.console import console


@dataclass(frozen=True)
class Typed:
    """What a command left: exit code, stdout, the words of its panel or table, and its folder."""

    code: int
    stdout: str
    words: str
    folder: Path

    @property
    def written(self) -> list[str]:
        """Everything that lies in the folder now."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    @property
    def answer(self) -> Any:
        """The object that it printed."""
        assert self.code == 0, self.words
        return json.loads(self.stdout)

    def refused(self, *said: str) -> None:
        """It was a mistake, of which a panel says this."""
        assert self.code == 2, self.words
        for words in said:
            assert words in self.words


@pytest.fixture
def sage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Typed]:
    """`sage(...)` in a folder of its own; without the Hub. An answer in JSON is one object."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(console, "width", 200)  # it may have read the variable already

    def type_(*words: str) -> Typed:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if "--json" in words and result.stdout.startswith("{"):
            one_object(result.stdout)
        said = " ".join(re.findall(r"[^\s│╭╮╰╯─┃━┏┓┗┛]+", result.output))
        return Typed(result.exit_code, result.stdout, said, folder)

    return type_


@pytest.fixture
def answer(sage: Callable[..., Typed]) -> Callable[..., Any]:
    """The object that a command prints."""
    return lambda *words: sage(*words, "--json").answer
