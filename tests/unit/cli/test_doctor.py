"""`sage doctor` on a setup that runs, and on broken ones: a line for each, and exit code 1."""

import json

import pytest
from random_model import save_scratch

from sage_cli.settings.model import ScratchModel
from sage_cli.store import mirrors
from sage_cli.trials.executors import build

FEW = ("--set", "evaluation.limit=3", "--set", "data.rl.limit=5")
QUICK = (*FEW, "--set", "data.sft.limit=50")


@pytest.fixture
def model(tmp_path):
    section = ScratchModel(kind="scratch", hidden=32, layers=1, heads=2)
    save_scratch(section, (), [], tmp_path / "m")
    return tmp_path / "m"


def test_a_check_is_a_line_with_a_mark(sage):
    typed = sage("doctor", *QUICK, "--algo", "dapo", "--guide", "random")
    assert typed.code == 0
    assert "✗" not in typed.stdout
    assert "✓ RL data arithmetic 5 problems" in typed.words
    assert "guide random and method dapo can be loaded" in typed.words
    assert "3 problems of arithmetic" in typed.words
    assert (
        ": not trained yet; `sage rl` trains it first, by SFT ✓ " in typed.words
    )  # data.sft.limit
    assert "by which the question '1+1=?' becomes a prompt of 5 characters" in typed.words
    assert "all 5 golds are the file's own" in typed.words
    assert "tiny can run here" in typed.words
    assert typed.stdout.splitlines()[-1].startswith("next: sage rl ")
    assert typed.stdout.splitlines()[-1].endswith("--algo dapo --guide random")
    assert typed.written == []
    (typed.folder / "taken").write_text("")
    typed = sage("doctor", *QUICK, "--runs", "taken")
    assert typed.code == 1
    assert "✗ runs folder" in typed.words
    assert "1 of" in typed.words


def test_its_json_has_every_check(answer):
    said = answer("doctor", *FEW)
    answers = {one["check"]: one["answer"] for one in said["checks"]}
    assert answers["initial policy"].endswith(", which comes with sage")
    assert answers["initial policy"].startswith("sft-arithmetic-")
    assert (said["can_run"], said["configuration"]) == (True, "tiny")
    names = [one["check"] for one in said["checks"]]
    assert {"runs folder", "device", "model", "prompt template"} <= set(names)
    assert not any(one["obstacle"] for one in said["checks"])


def test_a_model_that_is_named_stands_for_the_presets_own(sage, model):
    """Without `tiny` beside it a preset's other settings are the paper's, its model among them."""
    (model.parent / "own.yaml").write_text("rollout: {max_tokens: 8}\nrl: {optimizer: adamw}\n")
    typed = sage("doctor", *FEW, "--preset", model.parent / "own.yaml", "--init", model)
    assert "✓ model m: weights are in" in typed.words
    assert "✓ initial policy m, which --init names" in typed.words
    assert "sft.optimizer" not in typed.words  # nothing is trained by SFT
    words = ("doctor", *FEW, "--preset", "tiny", "--init", model)
    typed = sage(*words, "--set", "prompt.answer_open=⟨A⟩", "--set", "prompt.answer_close=⟨/A⟩")
    assert "! answer round trip a correct answer, " in typed.words
    assert "is read as '<start_working_out>3 + 4<end_working_out>A7/A'" in typed.words
    assert "tiny can run here, but 1 of " in typed.words
    assert "✓ answer round trip a correct answer (" in sage(*words).words


@pytest.mark.parametrize(
    ("sets", "check", "said", "mend"),
    [
        ("data.rl.name=gone.jsonl", "RL data gone.jsonl", "gone.jsonl", ""),
        ("rl.optimizer=adamw_8bit", "device", "rl.optimizer is 'adamw_8bit'", "=adamw"),
        ("sampling.backend=vllm", "sampling", "'vllm' cannot run here:", "backend=builtin"),
        (
            "model.kind=pretrained model.path=/no/model model.tuning=lora",
            "model",
            "there is no folder /no/model",
            "run's ID",
        ),
        ("evaluation.benchmark=aime24", "benchmark aime24", "no local copy", "SAGE_DATA"),
        ("prompt.format=chat", "prompt template", "no chat template", "prompt.format=paper"),
        ("anchor.reference=gone", "teacher", "is neither initial nor pre-sft", "ORG/MODEL"),
        ("tracking.tensorboard=true", "packages", "tensorboard", "pip install"),
        ("tracking.trackio=true", "packages", "trackio", "pip install"),
        ("executor.name=ray", "packages", "ray", "pip install"),
    ],
)
def test_a_broken_setup_names_what_is_in_the_way_and_the_mend(
    sage, monkeypatch, sets, check, said, mend
):
    for module in (mirrors, build):
        monkeypatch.setattr(module, "find_spec", lambda _: None)  # as if nothing were installed
    words = [word for setting in sets.split() for word in ("--set", setting)]
    typed = sage("doctor", *QUICK, *words, "--json")
    assert typed.code == 1
    found = json.loads(typed.stdout)
    assert found["can_run"] is False
    (one,) = [one for one in found["checks"] if one["check"] == check]
    assert one["obstacle"]
    assert said in one["answer"]
    assert mend in (one["mend"] or "")


def test_doctor_names_golds_and_characters_and_stops_nothing(sage, tmp_path):
    file = tmp_path / "uni.jsonl"
    row = {"question": "Wie groß ist ½ × 4 für 世界 🙂?", "gold": "[7, 'seven']"}
    file.write_text(json.dumps(row) + "\n")
    typed = sage("doctor", *QUICK, "--data", file)
    assert typed.code == 0
    assert "! golds 1 of 4 reference answers do not look like mathematical answers" in typed.words
    lost = "½ × ß ü 世 界 🙂"
    assert f"! characters the tokenizer has no tokens for {lost}: 1 of 4 problems" in typed.words


def test_it_generates_on_demand_and_fails_where_a_run_would_be_stopped(sage, model):
    few = ("--set", "evaluation.limit=3", "--set", "data.rl.limit=12")
    typed = sage("doctor", *few, "--generate")
    assert typed.code == 0  # of the base that comes with sage
    assert "✓ completions first 8 completions: 8 with a readable answer" in typed.words
    assert "for example: <start_working_out>" in typed.words
    assert "groups" not in typed.words  # there are none
    assert typed.written == []
    limit = ("--set", "rollout.max_tokens=12")
    typed = sage("doctor", *few, "--generate", "--preset", "tiny", "--init", model, *limit)
    assert typed.code == 1
    assert "✗ completions none of the first 64 completions has a readable answer" in typed.words
    assert "for example: " in typed.words


def test_it_generates_nothing_of_a_policy_that_is_not_trained_yet(sage):
    typed = sage("doctor", *QUICK, "--generate", "--set", "sft.steps=9")
    assert typed.code == 0
    assert "✓ completions none yet: the initial policy is first trained by SFT" in typed.words
