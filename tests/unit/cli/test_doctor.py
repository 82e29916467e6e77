"""`sage doctor` on a setup that runs, and on broken ones: a line for each, and exit code 1."""

import json
from importlib.util import find_spec

import pytest
from random_model import save_scratch

from sage_cli.cli.doctor import described_lengths
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import described_golds
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.problems.problem import Problem
from sage_cli.settings.judge_names import any_of
from sage_cli.settings.sections.model import ScratchModel
from sage_cli.store import mirrors
from sage_cli.trials.executors import executor

OF_RL = ("--set", "evaluation.limit=3", "--set", "data.rl.limit=5")
QUICK = (*OF_RL, "--set", "data.sft.limit=50")


@pytest.fixture
def without(monkeypatch):
    """Take a package away from a module that asks whether it is installed."""

    def take(module, package):
        monkeypatch.setattr(
            module, "find_spec", lambda name: None if name == package else find_spec(name)
        )

    return take


def test_a_healthy_setup(sage):
    typed = sage("doctor", *QUICK)
    assert typed.code == 0
    assert "✗" not in typed.stdout
    assert "✓ RL data arithmetic 5 problems" in typed.words
    assert "arithmetic 3" in typed.words
    assert "tiny can run here" in typed.words
    assert typed.written == []


def test_a_method_and_a_guide_are_typed_as_for_a_training(sage):
    typed = sage("doctor", *QUICK, "--algo", "dapo", "--guide", "random")
    assert "guide random, method dapo" in typed.words


def test_a_model_that_is_named_stands_for_the_presets_own(sage, tmp_path):
    """Without `tiny` beside it a preset's other settings are the paper's, its model among them."""
    (tmp_path / "own.yaml").write_text("rollout: {max_tokens: 8}\n")
    save_scratch(ScratchModel(kind="scratch", hidden=32, layers=1, heads=2), (), [], tmp_path / "m")
    typed = sage("doctor", *OF_RL, "--preset", tmp_path / "own.yaml", "--init", tmp_path / "m")
    assert "✓ model m: weights in" in typed.words


def test_an_answer_that_the_tokenizer_cannot_write_is_named(sage, tmp_path):
    save_scratch(ScratchModel(kind="scratch", hidden=32, layers=1, heads=2), (), [], tmp_path / "m")
    typed = sage(
        "doctor", *OF_RL, "--preset", "tiny", "--init", tmp_path / "m",
        "--set", "prompt.answer_open=⟨A⟩", "--set", "prompt.answer_close=⟨/A⟩",
    )  # fmt: skip
    assert "! answer a right answer, " in typed.words
    assert "is read as '<start_working_out>3 + 4<end_working_out>A7/A'" in typed.words
    healthy = sage("doctor", *OF_RL, "--preset", "tiny", "--init", tmp_path / "m")
    assert "✓ answer a right one of" in healthy.words


def test_its_json_has_every_check(sage):
    said = json.loads(sage("doctor", *QUICK, "--json").stdout)
    assert (said["can_run"], said["configuration"]) == (True, "tiny")
    names = [one["check"] for one in said["checks"]]
    assert {"runs folder", "device", "model", "prompt template"} <= set(names)
    assert not any(one["obstacle"] for one in said["checks"])


@pytest.mark.parametrize(
    ("sets", "check", "said", "mend"),
    [
        (("data.rl.name=gone.jsonl",), "RL data gone.jsonl", "gone.jsonl", None),
        (("rl.optimizer=adamw_8bit",), "device", "rl.optimizer is 'adamw_8bit'", "=adamw"),
        (("sampling.backend=vllm",), "sampling", "'vllm' can't run here", "backend=transformers"),
        (
            ("model.kind=pretrained", "model.path=/no/model", "model.tuning=lora"),
            "model", "there is no folder /no/model", "run's id",
        ),
        (("evaluation.benchmark=aime24",), "benchmark aime24", "no local copy", "SAGE_DATA"),
        (("prompt.format=chat",), "prompt template", "no chat template", "prompt.format=paper"),
    ],
)  # fmt: skip
def test_a_broken_setup_names_what_is_in_the_way_and_the_mend(sage, sets, check, said, mend):
    words = [word for one in sets for word in ("--set", one)]
    typed = sage("doctor", *QUICK, *words, "--json")
    assert typed.code == 1
    found = json.loads(typed.stdout)
    assert found["can_run"] is False
    (one,) = [one for one in found["checks"] if one["check"] == check]
    assert one["obstacle"]
    assert said in one["answer"]
    assert mend is None or mend in one["mend"]


def test_a_runs_folder_that_is_a_file(sage, tmp_path):
    (tmp_path / "taken").write_text("")
    typed = sage("doctor", *QUICK, "--runs", tmp_path / "taken")
    assert typed.code == 1
    assert "✗ runs folder" in typed.words
    assert "1 of" in typed.words


@pytest.mark.parametrize(
    ("module", "package", "sets"),
    [
        (mirrors, "tensorboard", "tracking.tensorboard=true"),
        (executor, "ray", "executor.name=ray"),
    ],
)
def test_packages_that_settings_need(sage, without, module, package, sets):
    without(module, package)
    typed = sage("doctor", *QUICK, "--set", sets)
    assert typed.code == 1
    assert "✗ packages" in typed.words
    assert package in typed.words
    assert "pip install" in typed.words


PROBLEMS = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "12*12=?", "144")]
TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])


def said(*sets, positions=None, problems=PROBLEMS):
    config = load((), sets=sets).config
    return described_lengths(config, problems, TOKENIZER, positions)


def test_the_shortest_of_several_golds_must_fit():
    several = [Problem("a", "toy", "1+1=?", any_of(["one and one", "2"]))]
    assert "bare answers take up to 3;" in said(positions=512, problems=several)


def test_lengths_in_tokens():
    # "12*12=?" has 7 characters; "144" in two tags that are single tokens 5
    assert said(positions=512) == (
        "prompts have up to 7 tokens, rollouts up to 48 more, of which bare answers take up to 5; "
        "the model's context has 512"
    )


@pytest.mark.parametrize(
    ("sets", "cause", "mend"),
    [
        # "2" takes 3 tokens, "144" 5
        (("rollout.max_tokens=4",), "1 of 2 problems can't be answered", "max_tokens=5 is the"),
        (("rollout.max_tokens=2",), "2 of 2 problems can't be answered", "max_tokens=5 is the"),
        # the box is written in characters: \boxed{144} has 11
        (("prompt.answer=boxed", "rollout.max_tokens=8"), "longest answer takes 11", "=11"),
        # 7 + 48 = 55 tokens, of which 50 fit: 50 - 7 = 43
        ((), "7 tokens, and with rollout.max_tokens 48 that is more than", "max_tokens=43"),
    ],
)
def test_what_does_not_fit_is_said_with_the_limit_that_is_needed(sets, cause, mend):
    with pytest.raises(ConfigurationError, match=cause) as error:
        said(*sets, positions=50)
    assert mend in str(error.value.next_step)


def test_a_prompt_beyond_the_context_has_no_limit_that_fits():
    with pytest.raises(ConfigurationError) as error:
        said(positions=7)
    assert "leave the longest prompts out" in str(error.value.next_step)


def test_text_anywhere_needs_no_tags():
    sets = ("grading.mode=math-verify", "grading.extract=text", "rollout.max_tokens=3")
    assert "bare answers take up to 3" in said(*sets)


@pytest.mark.parametrize(
    ("gold", "doubt"),
    [
        ("['7', 'seven']", "Python or JSON"), ('{"value": 7}', "Python or JSON"),
        ("array([7.])", "Python or JSON"), ("nan", "a missing value"), ("None", "a missing value"),
        ("notfound", "a missing value"), ("proof", "a missing value"),
        ("3 + 4 = 7\n#### 7", "a worked solution"), (r"We get $\boxed{7}$.", "a worked solution"),
        ("The answer is 7", "a sentence"), ("We add three and four, so 7.", "a sentence"),
        ("7 " * 200, "a long text"), ("???", "a text"),
    ],
)  # fmt: skip
def test_golds_that_are_hardly_answers_are_named(gold, doubt):
    problems = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "q", gold)]
    with pytest.raises(DataError, match="1 of 2 golds are hardly answers") as refused:
        described_golds(problems)
    assert doubt in refused.value.cause


@pytest.mark.timeout(60)
def test_golds_are_counted_by_what_they_read_as():
    golds = {
        "number": ["7", "-0.5", "1,234", r"\$3.50", r"50\%", "1e-5"],
        "formula": [r"\frac{1}{2}", "x^2+1", "[0, 1)", r"\{1, 2\}", "3:4", "12 km", "(1, 2)",
                    r"\text{increasing on } (0, 1)"],
        "choice": ["A", "(B)", r"\text{(C)}"],
        "assignment": ["x = 7", "x=1, y=2"],
        "word": ["Yes", r"\text{Yes}", "no solution", "Mrs. Doyle's class", "Übung", "east",
                 "mother-in-law"],
    }  # fmt: skip
    golds["formula"].append(f"{'a' * 200}(C)")  # whose letters are split in no more than one way
    for kind, texts in golds.items():
        counted = described_golds([Problem("a", "toy", "q", text) for text in texts])
        assert counted == f"{len(texts)} {kind}s"


def test_doctor_names_golds_and_characters_and_stops_nothing(sage, tmp_path):
    file = tmp_path / "uni.jsonl"
    row = {"question": "Wie groß ist ½ × 4 für 世界 🙂?", "gold": "[7, 'seven']"}
    file.write_text(json.dumps(row) + "\n")
    typed = sage("doctor", *QUICK, "--data", file)
    assert typed.code == 0
    assert "! golds 1 of 4 golds are hardly answers" in typed.words
    lost = "½ × ß ü 世 界 🙂"
    assert f"! characters the tokenizer has no tokens for {lost}: 1 of 4 problems" in typed.words
