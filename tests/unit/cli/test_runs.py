"""What `sage runs list --columns` says of runs."""

import json

import pytest

from sage_cli.cli.console import console
from sage_cli.store import metrics
from sage_cli.store.metrics import MetricsFile
from sage_cli.store.run import Runs, record_evaluation


@pytest.fixture
def made(tmp_path, sage):
    """Two trainings that differ by guide and learning rate, the second one measured."""
    runs = Runs(tmp_path / "empty" / "runs")
    plain, branch = runs.at("rl", "dapo", "1" * 8), runs.at("rl", "dapo-branch", "2" * 8)
    settings = {
        plain.id: {"guide": {"name": "none"}, "rl": {"learning_rate": 1e-5, "steps": 2}},
        branch.id: {
            "guide": {"name": "branch", "tau": 1.2}, "rl": {"learning_rate": 2e-5, "steps": 2},
        },
    }  # fmt: skip
    for run, last in ((plain, 0.25), (branch, 0.5)):
        with run.recording(settings[run.id], kind="rl", parent=None, seed=7, template="0"):
            run.metrics.append({"step": 1, "reward": 0.125, "kl/reference": 0.0})
            run.metrics.append({"step": 2, "reward": last, "kl/reference": 0.01})
    record_evaluation(branch, "amc23", {"pass@1": 0.375})
    return plain, branch


def rows(typed):
    return json.loads(typed.stdout)["runs"]


def test_columns_are_settings_and_figures(sage, made):
    plain, _ = made
    typed = sage("runs", "list", "--columns", "guide.tau,rl.learning_rate,pass@1,reward", "--json")
    assert typed.code == 0
    first, second = rows(typed)
    assert first == {
        "id": plain.id, "guide.tau": None, "rl.learning_rate": 1e-5,
        "pass@1 on amc23": None, "reward": 0.25,
    }  # fmt: skip
    assert (second["guide.tau"], second["pass@1 on amc23"]) == (1.2, 0.375)


def test_the_list_says_how_runs_differ_on_100_columns(sage, made, monkeypatch):
    monkeypatch.setattr(console, "width", 100)
    lines = sage("runs", "list").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    for run, guide, rate in ((made[0], "none", "1e-05"), (made[1], "branch", "2e-05")):
        (line,) = [line for line in lines if run.id in line]
        assert f"guide.name={guide}" in line
        assert rate not in line  # the guide tells them apart
    again = {"guide": {"name": "none"}, "rl": {"learning_rate": 1e-5, "steps": 2, "seed": 2}}
    second = Runs(made[0].folder.parent).at("rl", "dapo", "3" * 8)
    with second.recording(again, kind="rl", parent=None, seed=2, template="0"):
        pass
    ids = [line.split()[0] for line in sage("runs", "list").stdout.splitlines()[1:4]]
    assert ids == [made[0].id, second.id, made[1].id]  # replicates stand together


def test_a_base_has_no_settings_of_the_rl_that_asked_for_it(sage, made):
    base = Runs(made[0].folder.parent).at("sft", "base", "3" * 8)
    settings = {"guide": {"name": "branch"}, "sft": {"steps": 5}}
    with base.recording(settings, kind="sft", parent=None, seed=7, template="0"):
        pass
    shown = ("runs", "list", "--columns", "sft.steps", "--json")
    assert [row["id"] for row in rows(sage(*shown, "--where", "guide.name=branch"))] == [made[1].id]
    assert [row["sft.steps"] for row in rows(sage(*shown))] == [None, None, 5]


def test_where_chooses_by_settings_and_by_the_manifest(sage, made):
    plain, branch = made
    for where, id_ in (("guide.name=branch", branch.id), ("rl.learning_rate=1e-5", plain.id)):
        (row,) = rows(sage("runs", "list", "--where", where, "--json"))
        assert row["id"] == id_
    both = ("--where", "status=finished", "--where", "guide.name=none")
    assert [row["id"] for row in rows(sage("runs", "list", *both, "--json"))] == [plain.id]
    assert "no run fits" in sage("runs", "list", "--where", "guide.name=token").words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--where", "guide.nme=branch"), "did you mean guide.name?"),
        (("--columns", "guide.taw"), "did you mean guide.tau?"),
        (("--where", "branch"), "--where takes setting=value"),
    ],
)
def test_an_unknown_setting_is_refused(sage, made, words, said):
    typed = sage("runs", "list", *words)
    assert typed.code == 2
    assert said in typed.words


def test_the_list_parses_the_last_record_of_each_run_alone(sage, made, monkeypatch, caplog):
    def whole(_):
        raise AssertionError("all records were parsed for one step")

    monkeypatch.setattr(MetricsFile, "read", whole)
    monkeypatch.setattr(metrics, "END_BYTES", 80)  # as if the file were large
    changed = made[0].metrics.path
    changed.write_text(changed.read_text().replace("0.125", "0.875"))
    typed = sage("runs", "list")
    assert f"{changed.name} has been changed since its training ended" in caplog.text
    assert typed.code == 0
    for run in made:
        (line,) = (line for line in typed.stdout.splitlines() if run.id in line)
        assert line.split()[1:3] == ["finished", "2"]


def test_a_run_without_its_configuration_costs_its_settings_alone(sage, made):
    plain, branch = made
    (plain.folder / "config.json").unlink()
    typed = sage("runs", "list", "--columns", "rl.learning_rate,reward", "--json")
    assert rows(typed) == [
        {"id": plain.id, "rl.learning_rate": None, "reward": 0.25},
        {"id": branch.id, "rl.learning_rate": 2e-5, "reward": 0.5},
    ]
    for words in (("list",), ("show", plain.id)):
        assert sage("runs", *words).code == 0
