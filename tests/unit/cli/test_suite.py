"""`sage suite` and `sage samples`: what they say before anything is run."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from sage_cli.cli.demo import _show

PAPER = ("--preset", "qwen2.5-math-7b")
BASE = "sft-arithmetic-74224294"
"""The base that comes with sage."""


def test_a_plan_needs_neither_data_nor_models_and_a_report_has_a_row_for_each(sage):
    typed = sage("suite", "plan", "paper", *PAPER, "--json")
    found = typed.answer
    assert {task["state"] for task in found["tasks"]} == {"to do"}
    assert found["tasks"][-1]["command"].startswith("sage sweep --space table6")
    assert found["cost"] == found["left"]
    assert found["cost"]["tokens"] > 10**9
    assert len(found["chosen"]) > 10
    assert any("is not in the local cache of the Hub" in note for note in found["notes"])
    assert typed.written == []
    (chapter,) = sage("suite", "report", "table4", "--seeds", "1", "--json").answer["chapters"]
    rows = [row["model"] for row in chapter["sections"]["measured"]["rows"]]
    states = {"initial policy": "measured", "grpo": "trained", "grpo-branch": "trained"}
    assert rows == [f"{model} (not {state} yet)" for model, state in states.items()]
    assert {one["verdict"] for one in chapter["sections"]["claims"]["claims"]} == {"not measured"}


def test_all_suites_are_listed_and_planned(sage):
    typed = sage("suite", "list")
    assert "figure4" in typed.words
    assert "sweep table6" in typed.words
    assert "3 arms" in typed.words
    assert "12 suites" in typed.words
    typed = sage("suite", "plan", "demo")
    assert typed.code == 0
    commands = (
        f"sage eval {BASE} --preset tiny",
        "sage rl --measure --preset tiny --algo dapo --guide branch",
    )
    assert set(commands) < set(typed.stdout.splitlines())
    assert "sage sft" not in typed.words
    assert "chosen" not in typed.words
    assert "Total" not in typed.words  # nothing is done, so that it would be what remains
    dry = sage("suite", "run", "demo", "--seeds", "2", "--dry-run").stdout.splitlines()
    assert not set(commands) & set(dry)
    assert dry[-1] == (
        "dry run: nothing was run; `sage suite plan demo --seeds 2` prints the command of each task"
    )
    told = sage("suite", "plan", "table1").words
    assert "Assumption about the paper's models: A completion may have 2,048 new tokens" in told


@pytest.mark.parametrize(
    ("analysis", "said"),
    [
        ("{name: supprt}", "did you mean support?"),
        ("{name: lengths, options: {delta: '0.1'}}", "does not use --delta"),
    ],
)
def test_an_analysis_that_cannot_be_is_refused_before_anything_runs(sage, tmp_path, analysis, said):
    file = tmp_path / "mine.yaml"
    file.write_text(f"title: mine\nmethods: {{base: base}}\nanalyses: [{analysis}]\n")
    for verb in ("run", "report"):
        typed = sage("suite", verb, str(file))
        typed.refused(said)
        assert typed.written == []


def test_the_command_of_a_search_is_that_of_the_suites_plan(sage, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        'title: mine\nmethods: {a: dapo/none/reverse, b: {of: dapo/branch, space: "tau=0.2:0.8"}}\n'
        'seeds: 1\ntune: {space: "learning_rate=1e-4:1e-3:log", trials: 2, steps: 2}\n'
    )
    plan = sage("suite", "plan", str(file), "--json").answer
    searches = [task for task in plan["tasks"] if task["command"].startswith("sage sweep")]
    assert len(searches) == 2
    assert {task["needs"] for task in plan["tasks"] if task["command"].startswith("sage rl")} == {
        task["name"] for task in searches
    }
    for task in searches:
        typed = sage(*shlex.split(task["command"])[1:], "--dry-run", "--json")
        assert typed.code == 0, typed.words
        assert f"sweeps/{task['name']}" in typed.stdout
    sage("suite", "report", str(file)).refused("not tuned yet: a, b")


def test_the_demo_says_how_its_table_was_measured(capsys):
    claims = SimpleNamespace(name="claims", data={"claims": []}, tables=())
    written = SimpleNamespace(
        chapters=[SimpleNamespace(sections=[claims])],
        facts={"measured": "temperature 1; n 4"},
        report=SimpleNamespace(folder=Path("report")),
    )
    plan = SimpleNamespace(overrides=SimpleNamespace(sets=()), config=None, folder=Path("demo-1"))
    _show(written, plan)
    assert "temperature 1; n 4" in capsys.readouterr().out
