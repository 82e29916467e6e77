"""Every command with `--json`, in a process of its own, where libraries print on stdout.

Whatever it answers is one JSON object.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from json_answers import all_answering, command_of, one_object
from small import write_small

pytestmark = pytest.mark.slow

MORE = """
sft: {steps: 2, batch_size: 4, max_length: 48}
rl: {steps: 1, prompts_per_step: 2, rollouts_per_prompt: 2, micro_batch: 4, stop_when_stuck: false}
anchor: {beta: 0.4}
evaluation: {samples: 2, k: "1,2", bootstrap: 100}
sweep: {samples: 2, objective: [pass@1, pass@2], steps: 1}
"""
SUITE = """
title: "A small suite"
methods: {base: base, grpo-branch: grpo/branch}
k: 1,2
seeds: 1
analyses: [{name: support}, {name: lengths}]
claims: grpo-branch > base at pass@2
"""
SPACE = "guide: branch\nparameters: {tau: {key: guide.tau, values: [0.1]}}\n"
THEIRS = '{"question": "1+2", "gold": "3", "completion": "<SOLUTION>3</SOLUTION>"}\n'
ROW = '{"gold": "27", "completion": "<SOLUTION>27</SOLUTION>"}\n'
PRESETS = ("--preset", "tiny", "--preset", "small.yaml")
Type = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder in which the commands are typed."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def type_(folder, warm):
    """Type a command; all that it leaves on stdout is one object, without colours.

    It begins cold, since what libraries print when they are loaded counts too; its tasks don't.
    """
    write_small(folder, MORE)
    for name, text in {
        "space.yaml": SPACE,
        "mine.yaml": SUITE,
        "rows.jsonl": ROW,
        "theirs.jsonl": THEIRS,
    }.items():
        (folder / name).write_text(text)
    noisy = {"WANDB_MODE": "offline", "WANDB_SILENT": "false", "FORCE_COLOR": "1"}
    environment = {**os.environ, **noisy, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def run(*words, code=0):
        done = subprocess.run(
            [*warm.driver, *words, "--json"], cwd=folder, env=environment, capture_output=True,
            text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-3000:]
        return one_object(done.stdout)

    return run


@pytest.fixture(scope="module")
def base(type_):
    return str(type_("sft", *PRESETS)["id"])


@pytest.fixture(scope="module")
def policy(type_, base):
    made = type_("rl", *PRESETS, "--guide", "branch")
    assert made["parent"] == base
    return str(made["id"])


@pytest.fixture(scope="module")
def measured(type_, base, policy):
    return type_("passk", policy, base)


@pytest.fixture(scope="module")
def copied(folder, measured, tmp_path_factory):
    """Return a copy of the folder of runs, as one gets it from somebody else."""
    there = tmp_path_factory.mktemp("elsewhere") / "runs"
    shutil.copytree(folder / "runs", there)
    return str(there)


def test_typed_again_it_is_the_same_run(type_, policy, base, measured):
    assert type_("rl", *PRESETS, "--guide", "branch")["id"] == policy
    assert [curve["policy"] for curve in measured["curves"]] == [policy, base]


def test_mistakes(type_, base, policy):
    for words, code, cause in (
        (("rl", *PRESETS, "--algo", "dpao"), 2, "rl.algo is 'dpao'"),
        (("compare", "nobody", policy), 2, "there is no run 'nobody'"),
        (("grade", "nothing.jsonl"), 2, "can't read nothing.jsonl"),
        (("runs", "remove", policy), 1, "declined"),
        (("runs", "remove", base, "--yes"), 2, "is the parent of"),
    ):
        error = type_(*words, code=code)["error"]
        assert error["exit_code"] == code
        assert cause in error["cause"]


PLAIN: tuple[str, ...] = (
    "runs list", "runs list --columns guide.tau,pass@1", "runs show POLICY",
    "passk POLICY BASE", "passk POLICY=ours BASE", "passk POLICY --dry-run", "eval --dry-run",
    "eval POLICY --k 1,2",
    "compare BASE POLICY", "power POLICY --samples 2", "samples show POLICY --limit 1",
    "analyze", "analyze patterns POLICY BASE", "analyze perplexity POLICY",
    "analyze support POLICY", "analyze support POLICY --survival", "passk POLICY --grade working",
    "analyze diversity POLICY BASE", "analyze entropy POLICY",
    "analyze majority POLICY", "analyze reliability POLICY BASE",
    "analyze lengths POLICY",
    "analyze dynamics POLICY",
    "samples tokens POLICY --limit 1", "export POLICY exported", "config algos",
    "config presets",
    "sft -p tiny --dry-run", "rl -p tiny --guide branch --dry-run", "demo --dry-run",
    "data list", "data show arithmetic", "data overlap arithmetic arithmetic-dev",
    "config show", "config show --origin", "config explain guide.tau",
    "grade rows.jsonl", "grade rows.jsonl --mode both", "doctor", "init begun",
)  # fmt: skip
"""Command lines, once there is a base and a measured policy."""


HOLDS = {
    "runs list": lambda answer: len(answer["runs"]) >= 2,
    "runs show POLICY": lambda answer: answer["evaluations"],
    "eval POLICY --k 1,2": lambda answer: answer["name"] == "eval",
    "compare BASE POLICY": lambda answer: answer["name"] == "compare",
    "passk POLICY=ours BASE": lambda answer: answer["curves"][0]["policy"] == "ours",
    "samples tokens POLICY --limit 1": lambda answer: len(answer["completions"]) == 1,
    "data list": lambda answer: "arithmetic" in {one["name"] for one in answer["sources"]},
    "data show arithmetic": lambda answer: answer["problems"] == 200,
    "data overlap arithmetic arithmetic-dev": lambda answer: answer["same"] == 0,
    "grade rows.jsonl": lambda answer: answer["statuses"]["strict"]["right"] == 1,
    "config algos": lambda answer: {"grpo", "bnpo", "dapo", "dr-grpo", "pass-at-k"} < {*answer},
    "demo --dry-run": lambda answer: len(answer["tasks"]) == 4,
}
"""What holds of some answers, besides that they are there."""


@pytest.mark.parametrize("typed", PLAIN)
def test_an_answer_is_one_object(type_, base, policy, measured, typed):
    words = typed.replace("BASE", base).replace("POLICY", policy).split()
    assert HOLDS.get(typed, bool)(type_(*words))


def test_a_copy_of_the_runs_has_the_same_curves(type_, base, policy, measured, copied):
    again = type_("passk", policy, base, "--runs", copied)
    curves = [[curve["pass@k"] for curve in answer["curves"]] for answer in (again, measured)]
    assert curves[0] == curves[1]


ORDERED: tuple[str, ...] = (
    "sft PRESETS", "rl PRESETS --guide branch", "sweep PRESETS --space space.yaml",
    "sweep PRESETS --space space.yaml --dry-run", "sweep list", "sweep show tau-",
    "suite list", "suite plan mine.yaml PRESETS",
    "suite run mine.yaml PRESETS", "suite run mine.yaml PRESETS --dry-run",
    "suite report mine.yaml PRESETS",
    "runs remove POLICY --runs COPIED --yes",
    "samples import theirs.jsonl --as theirs", "data probe POLICY arithmetic --limit 2",
    "view POLICY --export page",
    "demo --set sft.steps=2 --set rl.steps=1 --set evaluation.samples=4 --set evaluation.k=1,4",
)  # fmt: skip
"""Command lines of which one needs what an earlier one has left."""


def test_sweeps_and_suites_answer(type_, policy, measured, copied):
    found, known = {}, all_answering()
    for typed in ORDERED:
        words = typed.replace("POLICY", policy).replace("PRESETS", " ".join(PRESETS))
        words = words.replace("COPIED", copied).split()
        found[command_of(words, known)] = type_(*words)
    (chapter,) = found["suite report"]["chapters"]
    assert {"measured", "claims", "passk", "lengths"} <= set(chapter["sections"])
    assert len(found["demo"]["runs"]) == 3


def test_no_command_is_left_out():
    known = all_answering()
    typed = {command_of(line.split(), known) for line in (*PLAIN, *ORDERED)}
    assert typed == known
