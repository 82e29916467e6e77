"""Every command with `--json`, in a process of its own, where libraries print on stdout."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from small import write_small
from warm import Warm

pytestmark = pytest.mark.slow

MORE = """
sft: {steps: 2, batch_size: 4, max_length: 48}
rl: {steps: 1, prompts_per_step: 2, rollouts_per_prompt: 2, micro_batch: 4, stop_when_stuck: false}
anchor: {beta: 0.4}
evaluation: {samples: 2, k: "1,2", bootstrap: 100}
sweep: {samples: 2, objective: [pass@1, pass@2], steps: 1}
"""
SPACE = "guide: branch\nparameters: {tau: {key: guide.tau, values: [0.1]}}\n"
ROW = '{"gold": "27", "completion": "<SOLUTION>27</SOLUTION>"}\n'
PRESETS = ("--preset", "tiny", "--preset", "small.yaml")
Type = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def type_(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Type:
    """Type a command; all that it leaves on stdout is one object, without colours.

    It begins cold, since what libraries print when they are loaded counts too; its tasks don't.
    """
    folder = tmp_path_factory.mktemp("lab")
    write_small(folder, MORE)
    (folder / "space.yaml").write_text(SPACE)
    (folder / "rows.jsonl").write_text(ROW)
    (folder / "own.yaml").write_text("rl: {steps: 3}\n")
    noisy = {"WANDB_MODE": "offline", "WANDB_SILENT": "false", "FORCE_COLOR": "1"}
    environment = {**os.environ, **noisy, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            [*warm.driver, *words, "--json"], cwd=folder, env=environment, capture_output=True,
            text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-3000:]
        assert "\x1b" not in done.stdout
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    return run


@pytest.fixture(scope="module")
def base(type_: Type) -> str:
    return str(type_("sft", *PRESETS)["id"])


@pytest.fixture(scope="module")
def policy(type_: Type, base: str) -> str:
    made = type_("rl", *PRESETS, "--guide", "branch")
    assert made["parent"] == base
    return str(made["id"])


@pytest.fixture(scope="module")
def measured(type_: Type, base: str, policy: str) -> dict[str, Any]:
    return type_("passk", policy, base)


def test_training_and_sweeping(type_: Type, policy: str) -> None:
    assert type_("rl", *PRESETS, "--guide", "branch")["id"] == policy  # found
    swept = type_("sweep", *PRESETS, "--space", "space.yaml")
    assert [cell["settings"]["guide.tau"] for cell in swept["cells"]] == [0.1]


def test_measuring(type_: Type, base: str, policy: str, measured: dict[str, Any]) -> None:
    assert [curve["policy"] for curve in measured["curves"]] == [policy, base]
    assert type_("eval", policy, "--k", "1,2")["name"] == "eval"
    assert type_("compare", base, policy)["name"] == "compare"
    drawn = type_("passk", f"{policy}=ours", base, "--out", "curves.pdf")
    assert [curve["policy"] for curve in drawn["curves"]] == ["ours", base]
    assert len(type_("guide", "show", policy, "--limit", "1")["completions"]) == 1


def test_looking(type_: Type, base: str, policy: str, measured: dict[str, Any]) -> None:
    listed = type_("runs", "list")["runs"]
    assert {base, policy} <= {run["id"] for run in listed}
    assert type_("runs", "show", policy)["evaluations"]
    assert set(type_("runs", "diff", base, policy)) == {"a", "b", "settings", "about", "figures"}
    assert type_("runs", "archive", policy, "run.tar.gz")["runs"] == [policy, base]
    assert type_("runs", "restore", "run.tar.gz", "--runs", "elsewhere")["restored"] == [
        policy,
        base,
    ]
    again = type_("passk", policy, base, "--runs", "elsewhere")  # counted without any weights
    assert [curve["pass@k"] for curve in again["curves"]] == [
        curve["pass@k"] for curve in measured["curves"]
    ]
    assert type_("plot", policy, "--y", "reward,entropy")["name"] == "plot"
    assert "passk" in {report["name"] for report in type_("reports", "list")["reports"]}
    assert type_("runs", "path", policy)["folder"].endswith(policy)
    assert "arithmetic" in {source["name"] for source in type_("data", "list")["sources"]}
    assert type_("data", "show", "arithmetic")["problems"] == 200
    assert type_("data", "overlap", "arithmetic", "arithmetic-dev")["same"] == 0
    assert type_("config", "show", *PRESETS)["rl"]["steps"] == 1
    assert type_("config", "check", "own.yaml")["valid"] is True
    assert type_("grade", "rows.jsonl")["statuses"]["strict"]["right"] == 1
    assert {"grpo", "bnpo", "dapo", "dr-grpo", "pass-at-k"} < set(type_("algos"))
    assert len(type_("demo", "--dry-run")["stages"]) == 4


def test_mistakes(type_: Type, base: str, policy: str) -> None:
    for words, code, cause in (
        (("rl", *PRESETS, "--algo", "dpao"), 2, "rl.algo is 'dpao'"),
        (("compare", "nobody", policy), 2, "there is no run 'nobody'"),
        (("grade", "nothing.jsonl"), 2, "can't read nothing.jsonl"),
        (("runs", "remove", base), 1, "declined"),
        (("runs", "remove", base, "--yes"), 2, "is the parent of"),
    ):
        error = type_(*words, code=code)["error"]
        assert error["exit_code"] == code
        assert cause in error["cause"]
