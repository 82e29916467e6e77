"""`sage init`: what it writes can be run, and nothing is written over."""

import json


def test_the_folder_is_planned_and_examined_as_it_stands(sage, monkeypatch):
    typed = sage("init", "study")
    assert typed.code == 0
    assert {"study/preset.yaml", "study/problems.jsonl", "study/README.md", "study/suite.yaml"} == {
        file for file in typed.written if "." in file
    }
    monkeypatch.chdir(typed.folder / "study")
    presets = ("-p", "tiny", "-p", "preset.yaml")
    planned = json.loads(
        sage("rl", *presets, "--algo", "dapo", "--guide", "branch", "--measure", "--dry-run",
             "--json").stdout
    )["stages"]  # fmt: skip
    assert planned[1]["steps"] == 20
    assert planned[2]["benchmarks"] == "problems.jsonl"
    tasks = json.loads(sage("suite", "plan", "suite.yaml", *presets, "--json").stdout)
    assert "branch > no-kl" in json.dumps(tasks) or tasks["tasks"]
    shown = json.loads(sage("data", "show", "problems.jsonl", "--json").stdout)
    assert shown["problems"] == 40


def test_its_readme_names_commands_that_there_are_and_golds_are_products(sage):
    from sage_cli.cli.app import COMMANDS

    folder = sage("init", "study").folder / "study"
    typed = [line.split() for line in (folder / "README.md").read_text().splitlines()
             if line.startswith("sage ")]  # fmt: skip
    assert [words[1] for words in typed] == ["doctor", "rl", "passk", "suite"]
    assert {words[1] for words in typed} <= set(COMMANDS)
    folder = sage("init", "study").folder / "study"
    for line in (folder / "problems.jsonl").read_text().splitlines():
        problem = json.loads(line)
        a, b = problem["question"].removesuffix("=?").split("*")
        assert int(a) * int(b) == int(problem["gold"])


def test_only_an_empty_folder_is_filled(sage):
    folder = sage("init", "study").folder / "study"
    (folder / "preset.yaml").write_text("mine: {}\n")
    typed = sage("init", "study")
    assert typed.code == 2
    assert "study isn't empty" in typed.words
    assert (folder / "preset.yaml").read_text() == "mine: {}\n"
    (folder.parent / "file").write_text("")
    assert "file is a file" in sage("init", "file").words
    folder = sage("runs", "list").folder
    (folder / "empty").mkdir()
    typed = sage("init", "empty", "--json")
    assert len(json.loads(typed.stdout)["written"]) == 4
