"""A run's folder may bring code and say that it may be run: only who types a command can say so."""

import json

import pytest
from random_model import save_scratch

from sage_cli.models.folders import fingerprint
from sage_cli.settings.sections.model import ScratchModel
from sage_cli.store.run import Runs

YES = ("--set", "model.trust_remote_code=true")
NO = ("--set", "model.trust_remote_code=false")
SMALL = ScratchModel(kind="scratch", hidden=16, layers=1, heads=2, feed_forward=32)
ONE = ("--benchmark", "arithmetic", "--n", "1", "--limit", "1", "--seeds", "1")
HELP = "add --set model.trust_remote_code=true if it may be run here"
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
        settings = {"model": {**model, "tuning": "full"}, "prompt": PROMPT,
                    "sampling": {"max_tokens": 4}, "rl": {"optimizer": "adamw"}}  # fmt: skip
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
    ("samples", "tokens", "sft-trusting", "--guide", "branch", "--limit", "1",
     "--benchmark", "arithmetic"),
    ("export", "sft-trusting", "exported"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("typed", [(), NO], ids=["nothing", "no"])
def test_nothing_is_run_that_was_not_consented_to(sage, runs, ran, command, typed):
    if "trusting" not in " ".join(command):
        Runs(runs).find("sft-trusting").ask()
    words = command if command[0] != "passk" else (*command, "--set", "tracking.wandb=off")
    said = sage(*words, *typed, "--runs", runs)
    assert not ran.exists()
    said.refused("sft-trusting-11111111 was trained with Python code that its model brings", HELP)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_what_the_panel_says_helps(sage, runs, ran, command):
    if "trusting" not in " ".join(command):
        Runs(runs).find("sft-trusting").ask()
    said = sage(*command, *YES, "--runs", runs)
    assert (said.code, ran.exists()) == (0, True), said.words


def test_rl_from_such_a_run_needs_it_too(sage, runs, ran):
    """Its own configuration says so, and so does the start that is named."""
    stored = runs / "sft-trusting-11111111/config.json"
    said = sage("rl", "--config", stored, "--init", "sft-trusting", "--runs", runs)
    said.refused("a stored configuration can't consent to that")
    typed = ("model.kind=pretrained", "model.path=some/model", "model.tuning=full",
             "prompt.format=plain", "rl.allow_template_mismatch=true", "rl.steps=1",
             "rl.optimizer=adamw", "tracking.wandb=off")  # fmt: skip
    sets = [word for one in typed for word in ("--set", one)]
    sage("rl", "--init", "sft-trusting", *sets, "--runs", runs).refused(
        "add --set model.trust_remote_code=true"
    )
    assert not ran.exists()


def test_an_export_takes_no_other_settings_and_no_code(sage, runs, ran):
    sage("export", "sft-silent", "exported", "--set", "rl.steps=3", "--runs", runs).refused(
        "--set rl.steps=3 has no effect on an export",
        "it takes model.revision and model.trust_remote_code",
    )
    assert sage("export", "sft-silent", "exported", "--runs", runs).code == 0
    assert not ran.exists()


def test_a_model_that_cannot_do_without_its_code_says_what_to_type(sage, runs, ran, tmp_path):
    folder = runs / "sft-silent-11111111/model"
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard_of", "architectures": ["Model"],
               "auto_map": {**config["auto_map"], "AutoConfig": "modeling.Config"}}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    Runs(runs).find("sft-silent").note(files=None, weights=None)
    sage("export", str(folder), "exported", "--runs", runs).refused(HELP)
    assert not ran.exists()


def test_a_stored_judge_of_ones_own_is_not_run(sage, runs, tmp_path):
    """A copied run names a file that is here: nothing of it is run before its name is typed."""
    (tmp_path / "mine.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'judged')!r}).touch()\n"
        "def close(answer, gold):\n    return answer == gold"
    )
    file = runs / "sft-silent-11111111/config.json"
    stored = json.loads(file.read_text())
    judge = f"{tmp_path}/mine.py:close"
    file.write_text(json.dumps(stored | {"grading": {"judge": judge}}))
    Runs(runs).find("sft-silent").note(files=None)  # whoever edits a run may edit this, too
    for command in (("passk", "sft-silent", *ONE, "--k", "1"), ("eval", "sft-silent", *ONE)):
        sage(*command, "--runs", runs).refused("a stored configuration can't have it run")
        assert not (tmp_path / "judged").exists()
    typed = sage("passk", "sft-silent", *ONE, "--k", "1", "--set", f"grading.judge={judge}",
                 "--runs", runs)  # fmt: skip
    assert (typed.code, (tmp_path / "judged").exists()) == (0, True), typed.words


def test_stored_rewards_of_ones_own_hinder_no_measurement(sage, runs):
    file = runs / "sft-silent-11111111/config.json"
    stored = json.loads(file.read_text())
    rewards = [{"name": "no/such/file.py:brief"}]
    file.write_text(json.dumps(stored | {"rl": {**stored["rl"], "rewards": rewards}}))
    Runs(runs).find("sft-silent").note(files=None)
    said = sage("passk", "sft-silent", *ONE, "--k", "1", "--runs", runs)
    assert said.code == 0, said.words
