"""`sage doctor` on a setup that runs, and on broken ones: a line for each, and exit code 1."""

import json

import pytest
from random_model import save_scratch

from sage_cli.cli.doctor import described_lengths
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import described_golds
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.problems.problem import Problem
from sage_cli.settings.inputs import ScratchModel
from sage_cli.solution_text import any_of
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
    assert "tiny can run here" in typed.words
    assert typed.written == []
    (typed.folder / "taken").write_text("")
    typed = sage("doctor", *QUICK, "--runs", "taken")
    assert typed.code == 1
    assert "✗ runs folder" in typed.words
    assert "1 of" in typed.words


def test_its_json_has_every_check(answer):
    said = answer("doctor", *QUICK)
    assert (said["can_run"], said["configuration"]) == (True, "tiny")
    names = [one["check"] for one in said["checks"]]
    assert {"runs folder", "device", "model", "prompt template"} <= set(names)
    assert not any(one["obstacle"] for one in said["checks"])


def test_a_model_that_is_named_stands_for_the_presets_own(sage, model):
    """Without `tiny` beside it a preset's other settings are the paper's, its model among them."""
    (model.parent / "own.yaml").write_text("rollout: {max_tokens: 8}\n")
    typed = sage("doctor", *FEW, "--preset", model.parent / "own.yaml", "--init", model)
    assert "✓ model m: weights are in" in typed.words
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
        ("tracking.tensorboard=true", "packages", "tensorboard", "pip install"),
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


PROBLEMS = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "12*12=?", "144")]
TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])


def said(*sets, positions=None, problems=PROBLEMS):
    config = load((), sets=sets).config
    return described_lengths(config, problems, TOKENIZER, positions)


def test_lengths_in_tokens():
    # "12*12=?" has 7 characters; "144" in two tags that are single tokens 5
    assert said(positions=512) == (
        "prompts have at most 7 tokens and rollouts at most 48; the longest answer alone has 5; "
        "the model's context has 512 tokens"
    )
    several = [Problem("a", "toy", "1+1=?", any_of(["one and one", "2"]))]
    assert "the longest answer alone has 3;" in said(
        positions=512, problems=several
    )  # the shortest
    anywhere = ("grading.mode=math-verify", "grading.extract=text", "rollout.max_tokens=3")
    assert "the longest answer alone has 3" in said(*anywhere)  # needs no tags


@pytest.mark.parametrize(
    ("sets", "positions", "cause", "mend"),
    [
        # "2" takes 3 tokens, "144" 5
        (
            ("rollout.max_tokens=4",),
            50,
            "1 of 2 problems cannot be answered",
            "max_tokens=5; reasoning",
        ),
        (
            ("rollout.max_tokens=2",),
            50,
            "2 of 2 problems cannot be answered",
            "max_tokens=5; reasoning",
        ),
        # the box is written in characters: \boxed{144} has 11
        (("prompt.answer=boxed", "rollout.max_tokens=8"), 50, "longest answer alone has 11", "=11"),
        # 7 + 48 = 55 tokens, of which 50 fit: 50 - 7 = 43
        ((), 50, "7 tokens, and with rollout.max_tokens 48 that is more than", "max_tokens=43"),
        ((), 7, "7", "leave the longest prompts out"),  # no limit fits
    ],
)
def test_what_does_not_fit_is_said_with_the_limit_that_is_needed(sets, positions, cause, mend):
    with pytest.raises(ConfigurationError, match=cause) as error:
        said(*sets, positions=positions)
    assert mend in str(error.value.next_step)


@pytest.mark.parametrize(
    ("gold", "doubt"),
    [
        ("['7', 'seven']", "Python or JSON"),
        ('{"value": 7}', "Python or JSON"),
        ("array([7.])", "Python or JSON"),
        ("nan", "a missing value"),
        ("None", "a missing value"),
        ("notfound", "a missing value"),
        ("proof", "a missing value"),
        ("3 + 4 = 7\n#### 7", "a worked solution"),
        (r"We get $\boxed{7}$.", "a worked solution"),
        ("The answer is 7", "a sentence"),
        ("We add three and four, so 7.", "a sentence"),
        ("7 " * 200, "a long text"),
        ("???", "a text"),
    ],
)
def test_golds_that_are_hardly_answers_are_named(gold, doubt):
    problems = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "q", gold)]
    with pytest.raises(
        DataError, match="1 of 2 reference answers do not look like mathematical answers"
    ) as refused:
        described_golds(problems)
    assert doubt in refused.value.cause


@pytest.mark.timeout(60)
def test_golds_are_counted_by_what_they_read_as():
    golds = {
        "number": ["7", "-0.5", "1,234", r"\$3.50", r"50\%", "1e-5"],
        "formula": [
            r"\frac{1}{2}",
            "x^2+1",
            "[0, 1)",
            r"\{1, 2\}",
            "3:4",
            "12 km",
            "(1, 2)",
            r"\text{increasing on } (0, 1)",
        ],
        "choice": ["A", "(B)", r"\text{(C)}"],
        "assignment": ["x = 7", "x=1, y=2"],
        "word": [
            "Yes",
            r"\text{Yes}",
            "no solution",
            "Mrs. Doyle's class",
            "Übung",
            "east",
            "mother-in-law",
        ],
    }
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
