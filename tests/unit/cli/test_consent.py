"""A run's folder may bring code and say that it may be run: only who types a command can say so."""

import json

import pytest
from random_model import save_scratch

from sage_cli.models.folders import fingerprint
from sage_cli.settings.model import ScratchModel
from sage_cli.store.run import Runs

YES = ("--set", "model.trust_remote_code=true")
NO = ("--set", "model.trust_remote_code=false")
SMALL = ScratchModel(kind="scratch", hidden=16, layers=1, heads=2, feed_forward=32)
ONE = ("--benchmark", "arithmetic", "--n", "1", "--limit", "1", "--seeds", "1")
PROMPT = {"format": "plain", "system": None}
CODE = """
from pathlib import Path
from transformers import Qwen2ForCausalLM
class Model(Qwen2ForCausalLM):
    pass
Path({ran!r}).touch()
"""


@pytest.fixture
def ran(tmp_path):
    """The file that the model's code leaves when it is run."""
    return tmp_path / "ran"


@pytest.fixture
def runs(tmp_path, ran, monkeypatch):
    """A folder of runs as it was copied: one whose model brings code, and one without."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "m"))
    monkeypatch.syspath_prepend(str(tmp_path / "m"))
    found = Runs(tmp_path / "runs")
    for label, trusts in (("trusting", True), ("silent", False)):
        run = found.at("sft", label, "1" * 8)
        model = {"kind": "pretrained", "path": "some/model", "trust_remote_code": trusts}
        settings = {
            "model": {**model, "tuning": "full"},
            "prompt": PROMPT,
            "sampling": {"max_tokens": 4},
            "rl": {"optimizer": "adamw"},
        }
        with run.recording(settings, kind="sft", parent=None, seed=0):
            save_scratch(SMALL, ("<a>",), [], run.model)
            config = json.loads((run.model / "config.json").read_text())
            config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model"}
            (run.model / "config.json").write_text(json.dumps(config))
            (run.model / "modeling.py").write_text(CODE.format(ran=str(ran)))
            run.note(weights=fingerprint(run.model))
    return found.root


COMMANDS = [
    ("passk", "sft-trusting", *ONE, "--k", "1"),
    ("passk", *ONE, "--k", "1"),  # the latest run
    ("eval", "sft-trusting", *ONE, "--k", "1"),
    ("compare", "sft-trusting", "sft-silent", *ONE[:-2], "--k", "1"),
    (
        "samples",
        "tokens",
        "sft-trusting",
        "--guide",
        "branch",
        "--limit",
        "1",
        "--benchmark",
        "arithmetic",
    ),
    ("export", "sft-trusting", "exported"),
]


MEND = "add --set model.trust_remote_code=true if it may be run here"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_nothing_is_run_that_was_not_consented_to(sage, runs, ran, command):
    if "trusting" not in " ".join(command):
        Runs(runs).find("sft-trusting").ask()
    others = ("--set", "tracking.wandb=off") if command[0] == "passk" else ()
    for typed in ((), NO):
        sage(*command, *others, *typed, "--runs", runs).refused(
            "sft-trusting-11111111 was trained with Python code that its model brings", MEND
        )
        assert not ran.exists()
    said = sage(*command, *YES, "--runs", runs)
    assert (said.code, ran.exists()) == (0, True), said.words


def test_a_run_that_asks_for_nothing_is_loaded_without_its_code(sage, runs, ran):
    typed = ("export", "sft-silent", "exported", "--runs", runs)
    sage(*typed, "--set", "rl.steps=3").refused(
        "--set rl.steps=3 has no effect on an export",
        "an export accepts model.revision and model.trust_remote_code",
    )
    assert sage(*typed).code == 0
    assert not ran.exists()


def test_rl_from_such_a_run_needs_it_too(sage, runs, ran):
    """Its own configuration says so, and so does the start that is named."""
    start = ("rl", "--init", "sft-trusting", "--runs", runs)
    stored = runs / "sft-trusting-11111111/config.json"
    sage(*start, "--config", stored).refused("a stored configuration cannot consent to that")
    typed = (
        "model.kind=pretrained",
        "model.path=some/model",
        "model.tuning=full",
        "prompt.format=plain",
        "rl.allow_template_mismatch=true",
        "rl.steps=1",
        "rl.optimizer=adamw",
        "tracking.wandb=off",
    )
    sets = [word for one in typed for word in ("--set", one)]
    sage(*start, *sets).refused("add --set model.trust_remote_code=true")
    assert not ran.exists()


def test_a_model_that_cannot_do_without_its_code_says_what_to_type(sage, runs, ran):
    folder = runs / "sft-silent-11111111/model"
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "unheard_of",
        "architectures": ["Model"],
        "auto_map": {**config["auto_map"], "AutoConfig": "modeling.Config"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    Runs(runs).find("sft-silent").note(files=None, weights=None)
    sage("export", folder, "exported", "--runs", runs).refused(MEND)
    assert not ran.exists()


def change(runs, **changes):
    """Edit the silent run's settings as whoever copies a run may."""
    run = Runs(runs).find("sft-silent")
    file = run.folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    run.note(files=None)


def test_a_stored_judge_of_ones_own_is_not_run(sage, runs, tmp_path):
    """A copied run names a file that is here: nothing of it is run before its name is typed."""
    (tmp_path / "mine.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'judged')!r}).touch()\n"
        "def close(answer, gold):\n    return answer == gold"
    )
    judge = f"{tmp_path}/mine.py:close"
    change(runs, grading={"judge": judge})
    for command in (("passk", "sft-silent", *ONE, "--k", "1"), ("eval", "sft-silent", *ONE)):
        sage(*command, "--runs", runs).refused("a stored configuration can't have it run")
        assert not (tmp_path / "judged").exists()
    typed = sage(
        "passk", "sft-silent", *ONE, "--k", "1", "--set", f"grading.judge={judge}", "--runs", runs
    )
    assert (typed.code, (tmp_path / "judged").exists()) == (0, True), typed.words


def test_stored_rewards_of_ones_own_hinder_no_measurement(sage, runs):
    change(runs, rl={"optimizer": "adamw", "rewards": [{"name": "no/such/file.py:brief"}]})
    said = sage("passk", "sft-silent", *ONE, "--k", "1", "--runs", runs)
    assert said.code == 0, said.words
