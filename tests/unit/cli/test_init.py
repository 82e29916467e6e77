"""`sage init`: what it writes can be run, and nothing is written over."""

import json
from pathlib import Path

from sage_cli.cli.app import COMMANDS


def test_the_folder_is_planned_and_examined_as_it_stands(sage, answer, monkeypatch):
    typed = sage("init", "study")
    assert typed.code == 0
    assert {"study/preset.yaml", "study/problems.jsonl", "study/README.md", "study/suite.yaml"} == {
        file for file in typed.written if "." in file
    }
    monkeypatch.chdir(typed.folder / "study")
    presets = ("-p", "tiny", "-p", "preset.yaml")
    method = ("--algo", "dapo", "--guide", "branch")
    planned = answer("rl", *presets, *method, "--measure", "--dry-run")["stages"]
    assert planned[1]["steps"] == 20
    assert planned[2]["benchmarks"] == "problems.jsonl"
    assert answer("suite", "plan", "suite.yaml", *presets)["tasks"]
    assert answer("data", "show", "problems.jsonl")["problems"] == 40
    lines = Path("README.md").read_text().splitlines()
    named = [line.split()[1] for line in lines if line.startswith("sage ")]
    assert named == ["doctor", "rl", "passk", "suite"]
    assert set(named) <= set(COMMANDS)
    for line in Path("problems.jsonl").read_text().splitlines():
        problem = json.loads(line)
        a, b = problem["question"].removesuffix("=?").split("*")
        assert int(a) * int(b) == int(problem["gold"])


def test_only_an_empty_folder_is_filled(sage, answer):
    sage("init", "study")
    Path("study/preset.yaml").write_text("mine: {}\n")
    sage("init", "study").refused("study isn't empty")
    assert Path("study/preset.yaml").read_text() == "mine: {}\n"
    Path("file").write_text("")
    sage("init", "file").refused("file is a file")
    Path("empty").mkdir()
    assert len(answer("init", "empty")["written"]) == 4
