"""Sweeps and suites: states, claims, tables, curves in the runs' colours, failures with logs."""

import shutil

from sage_cli.trials.sweep.folder import SweepFolder
from sage_cli.view.api import Api


def test_a_sweep_and_a_suite_with_their_reports(api):
    found = api.answer("sweep", {"sweep": "tau-rho-12345678"})
    assert found["sweep"]["trials"] == {"done": 4, "failed": 1, "left": 1}
    assert found["report"].trials[4].failure.log == ("<b>no</b> memory",)
    assert found["command"].startswith("sage sweep --config")  # nobody drives it
    trials, failed = found["tables"]
    assert trials["rows"][0][:3] == ["1", "0.3", "0.5"]
    assert failed["title"] == "failed trials"
    assert set(found["commands"]) == {"1", "2", "3", "4"}  # of the fifth there is no run
    run = found["report"].trials[0].runs[0]
    assert found["commands"]["1"].startswith("sage rl --config ")
    assert found["commands"]["1"].endswith(f"/runs/{run}/config.json")  # was there before it
    held = {name: value for name, value in found["provenance"].items() if value is not None}
    assert held == {"commit": "abc"}
    found = api.answer("suite", {"suite": "demo-12345678"})
    assert found["suite"]["claims"] == {"holds": 1}
    assert found["suite"]["tasks"] == {"done": 1, "failed": 1, "to do": 1}
    (chapter,) = found["report"]["chapters"]
    claims, curves, runs = chapter["sections"]
    assert claims["tables"][0]["rows"] == [["a > b", "holds", "0.010"]]
    assert curves["k"] == [1, 8]
    assert [one["name"] for one in runs["tables"][0]["columns"]][2] == "policy"
    assert set(found["pictures"]) == {"claims-differences"}
    assert found["policies"] == ["sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb"]
    looks = api.runs.looks()
    assert found["looks"]["base"] == looks["sft-arithmetic-aaaaaaaa"]
    assert found["looks"]["dapo-branch"] == looks["rl-dapo-branch-bbbbbbbb"]
    (failure,) = found["failures"]
    assert (failure["kind"], failure["reason"]) == ("killed", "SIGKILL")
    assert failure["log"][-1] == "<img src=x onerror=alert(1)>"


def test_a_sweep_without_a_report_says_why(shown, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(shown / "sweeps", root / "sweeps")
    folder = root / "sweeps" / "tau-rho-12345678"
    task = folder / "tasks" / f"{SweepFolder(folder).result.trials[0].runs[0]}.json"
    task.parent.mkdir()
    task.touch()
    found = Api(root).answer("sweep", {"sweep": folder.name})
    assert found["commands"]["1"].endswith(f" {task}")
    (folder / "sweep.json").unlink()
    assert Api(root).answer("sweep", {"sweep": folder.name})["why"].startswith("no report yet")
    (folder / "sweep.json").write_text("{")
    assert "is corrupt or was edited" in Api(root).answer("sweep", {"sweep": folder.name})["why"]
    (folder / "state.json").write_text("{")
    (row,) = Api(root).answer("sweeps", {})["sweeps"]
    assert "is corrupt or was edited" in row["why_corrupt"]


def test_a_torn_report_of_a_suite_is_named(shown, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(shown / "suites", root / "suites")
    report = root / "suites" / "demo-12345678" / "report" / "shown.json"
    report.write_text("{")
    (row,) = Api(root).answer("suites", {})["suites"]
    assert "is corrupt or was edited" in row["why_corrupt"]
    found = Api(root).answer("suite", {"suite": "demo-12345678"})
    assert found["report"] is None
    assert "is corrupt or was edited" in found["suite"]["why_corrupt"]
    report.unlink()
    found = Api(root).answer("suite", {"suite": "demo-12345678"})
    assert (found["report"], found["policies"], found["pictures"]) == (None, [], {})


def test_a_folder_with_neither(tmp_path):
    assert Api(tmp_path).answer("sweeps", {}) == {"sweeps": []}
    assert Api(tmp_path).answer("suites", {}) == {"suites": []}
