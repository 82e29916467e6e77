"""`sage init`: what it writes can be run, and nothing is written over."""

import json
from pathlib import Path

from random_model import save_scratch

from sage_cli.cli.listing import COMMANDS
from sage_cli.settings.model import ScratchModel


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


def test_a_study_of_a_model_of_ones_own_trains_that_model_on_that_file(sage, answer, monkeypatch):
    folder = sage("config", "algos").folder
    rows = [{"question": f"{n}+1=?", "answer": f"#### {n + 1}"} for n in range(60)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_scratch(ScratchModel(kind="scratch", hidden=32, layers=1, heads=2), (), [], folder / "m")
    typed = sage("init", "study", "--model", "m", "--data", "rows.jsonl")
    assert typed.code == 0, typed.words
    monkeypatch.chdir(folder / "study")
    _, rl, measured = answer(
        "rl", "-p", "preset.yaml", "--guide", "branch", "--measure", "--dry-run"
    )["stages"]
    assert rl["problems"] == f"{folder / 'rows.jsonl'}:train"
    assert rl["learning rate"].startswith("1e-05")
    assert measured["benchmarks"] == f"{folder / 'rows.jsonl'}:dev"
    settings = answer("config", "show", "-p", "preset.yaml")
    assert settings["model"]["path"] == str(folder / "m")
    assert settings["sft"]["enabled"] is False
    assert settings["prompt"]["format"] == "plain"  # m has no chat template
    assert answer("suite", "plan", "suite.yaml", "-p", "preset.yaml")["tasks"]


def test_a_study_of_ones_own_needs_a_model_and_problems_that_can_be_read(sage):
    sage("init", "study", "--model", "m").refused("--data is not given")
    sage("init", "study", "--data", "rows.jsonl").refused("--model is not given")
    sage("init", "study", "--model", "m", "--data", "no.jsonl").refused("there is no file")
    assert not Path("study").exists()
