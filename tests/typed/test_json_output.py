"""Every command with `--json`, in a process of its own, where libraries print on stdout.

Whatever it answers is one JSON object.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from json_answers import one_object
from small import write_small

from sage_cli.cli.app import command_named
from sage_cli.cli.listing import COMMANDS

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
    files = {"space.yaml": SPACE, "mine.yaml": SUITE, "rows.jsonl": ROW, "theirs.jsonl": THEIRS}
    for name, text in files.items():
        (folder / name).write_text(text)
    noisy = {"WANDB_MODE": "offline", "WANDB_SILENT": "false", "FORCE_COLOR": "1"}
    environment = {**os.environ, **noisy, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def run(*words):
        done = subprocess.run(
            [*warm.driver, *words, "--json"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
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


def test_labels_and_another_folder_change_no_number(type_, base, policy, measured, copied):
    assert [curve["policy"] for curve in measured["curves"]] == [policy, base]
    again = type_("passk", f"{policy}=ours", base, "--runs", copied)
    assert [curve["policy"] for curve in again["curves"]] == ["ours", base]
    numbers = [[curve["pass@k"] for curve in found["curves"]] for found in (again, measured)]
    assert numbers[0] == numbers[1]
    assert type_("runs", "show", policy)["evaluations"]


PLAIN = (
    "runs list",
    "runs list --columns guide.tau,pass@1",
    "runs show POLICY",
    "passk POLICY BASE",
    "passk POLICY --dry-run",
    "eval POLICY --k 1,2",
    "eval --dry-run",
    "compare BASE POLICY",
    "power POLICY --samples 2",
    "samples show POLICY --limit 1",
    "analyze",
    "analyze patterns POLICY BASE",
    "analyze perplexity POLICY",
    "analyze support POLICY",
    "analyze support POLICY --survival",
    "passk POLICY --grade working",
    "analyze diversity POLICY BASE",
    "analyze entropy POLICY",
    "analyze majority POLICY",
    "analyze reliability POLICY BASE",
    "analyze lengths POLICY",
    "analyze dynamics POLICY",
    "samples tokens POLICY --limit 1",
    "export POLICY exported",
    "config algos",
    "config presets",
    "sft -p tiny --dry-run",
    "rl -p tiny --guide branch --dry-run",
    "demo --dry-run",
    "data list",
    "data show arithmetic",
    "data overlap arithmetic arithmetic-dev",
    "config show",
    "config show --origin",
    "config explain guide.tau",
    "grade rows.jsonl",
    "grade rows.jsonl --mode both",
    "doctor",
    "init begun",
)
"""Command lines, once there is a base and a measured policy."""


@pytest.mark.parametrize("typed", PLAIN)
def test_an_answer_is_one_object(type_, base, policy, measured, typed):
    assert type_(*[{"BASE": base, "POLICY": policy}.get(word, word) for word in typed.split()])


ORDERED = (
    "sft PRESETS",
    "rl PRESETS --guide branch",
    "sweep PRESETS --space space.yaml",
    "sweep PRESETS --space space.yaml --dry-run",
    "sweep list",
    "sweep show tau-",
    "suite list",
    "suite plan mine.yaml PRESETS",
    "suite run mine.yaml PRESETS",
    "suite run mine.yaml PRESETS --dry-run",
    "suite report mine.yaml PRESETS",
    "runs remove POLICY --runs COPIED --yes",
    "samples import theirs.jsonl --as theirs",
    "data probe POLICY arithmetic --limit 2",
    "view POLICY --export page",
    "demo --set sft.steps=2 --set rl.steps=1 --set evaluation.samples=4 --set evaluation.k=1,4",
)
"""Command lines of which one needs what an earlier one has left."""


def answering(name, command):
    """Return the commands at and below one that know `--json`."""
    options = [word for option in command.params for word in option.opts]
    inner = getattr(command, "commands", {})
    below = [words for one in inner for words in answering(f"{name} {one}", inner[one])]
    return [*([name] if "--json" in options else []), *below]


def all_answering():
    """Return every command that knows `--json`, as `runs list`."""
    return {words for name in COMMANDS for words in answering(name, command_named(name))}


def command_of(words, known):
    """Return `runs list` of `runs list --json`."""
    two = " ".join(words[:2])
    return two if two in known else words[0]


def test_sweeps_and_suites_answer(type_, policy, measured, copied):
    found, known = {}, all_answering()
    for typed in ORDERED:
        words = typed.replace("POLICY", policy).replace("PRESETS", " ".join(PRESETS))
        words = words.replace("COPIED", copied).split()
        found.setdefault(command_of(words, known), type_(*words))
    assert found["rl"]["id"] == policy  # which was there
    assert [trial["settings"]["guide.tau"] for trial in found["sweep"]["trials"]] == [0.1]
    (chapter,) = found["suite report"]["chapters"]
    assert {"measured", "claims", "passk", "lengths"} <= set(chapter["sections"])
    assert len(found["demo"]["runs"]) == 3


def test_no_command_is_left_out():
    known = all_answering()
    typed = {command_of(line.split(), known) for line in (*PLAIN, *ORDERED)}
    assert typed == known
