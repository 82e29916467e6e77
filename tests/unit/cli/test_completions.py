"""What bash, zsh and fish offer after a beginning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sage_cli.analysis.analyses import ANALYSES
from sage_cli.cli import completions
from sage_cli.cli.app import app
from sage_cli.config.catalogue import settings
from sage_cli.trials.suites.declaration import suite_names


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs here and one elsewhere; a folder that is none."""
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/rl-a", "runs/rl-b", "runs/.staged/rl-c", "elsewhere/rl-z"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "manifest.json").write_text("torn")
    (tmp_path / "runs/reports").mkdir()


def bash(line: str) -> list[str]:
    words = line.split(" ")
    variables = {
        "_SAGE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)
    }  # fmt: skip
    return CliRunner().invoke(app, [], env=variables, prog_name="sage").output.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sage passk r", ["rl-a", "rl-b"]),
        ("sage passk --runs elsewhere r", ["rl-z"]),
        ("sage runs show rl-b", ["rl-b"]),
        ("sage compare rl-a,rl-", ["rl-a,rl-a", "rl-a,rl-b"]),
        ("sage rl --init rl-a", ["rl-a"]),
        ("sage rl --preset tin", ["tiny"]),
        ("sage rl --algo dap", ["dapo"]),
        ("sage rl --guide bra", ["branch"]),
        ("sage suite run table1", ["table1"]),
        ("sage passk -b aime,amc", ["aime,amc23"]),
        ("sage rl --set rl.stop", ["rl.stop_when_stuck="]),
        ("sage config explain rl.stop", ["rl.stop_when_stuck"]),
        ("sage analyze maj", ["majority"]),
        ("sage passk zz", []),
    ],
)
def test_what_bash_is_offered(line: str, offered: list[str]) -> None:
    assert bash(line) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_offered_the_same(shell: str) -> None:
    variables = {
        "_SAGE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "sage rl --algo dap",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": "dap",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    said = CliRunner().invoke(app, [], env=variables, prog_name="sage").output
    assert "dapo" in said
    assert "grpo" not in said


def test_names_that_are_not_imported_are_those_that_are_known() -> None:
    assert completions.analyses("") == sorted(ANALYSES)
    assert completions.suites("") == suite_names()
    assert [f"{name}=" for name in settings()] == completions.settings("")


def test_no_library_of_models_or_pictures_is_imported() -> None:
    code = (
        "import sys\n"
        "from sage_cli.cli import completions as c\n"
        "for offer in (c.presets, c.methods, c.guides, c.suites, c.benchmarks, c.settings,"
        " c.analyses):\n"
        "    assert offer('')\n"
        "heavy = {'torch', 'transformers', 'trl', 'matplotlib', 'scipy', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
