"""`sage analyze` from the command line, on stored samples of real, tiny, random models."""

import json
import subprocess
import sys

import pytest
import torch
from random_model import save_scratch
from scripted import Scripted
from typer.testing import CliRunner

from sage_cli.analysis import scoring
from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.evaluation import measure as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.stored import PolicySamples
from sage_cli.models.loading import load_model, load_tokenizer
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
HEAVY = ("torch", "transformers", "trl", "peft", "wandb", "datasets", "pandas", "optuna")
PROGRAM = """
import json, sys
from sage_cli.cli.app import app
try:
    app(json.loads(sys.argv[1]))
except SystemExit as end:
    assert not end.code, end.code
print(sorted(set(json.loads(sys.argv[2])) & set(sys.modules)))
"""
TEXTS = ("S:1", "R:22", "S:1", "D:4</SOLUTION>")


class Same(Scripted):
    """A sampler that says the same of every problem."""

    def text(self, request, index):
        return TEXTS[index]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two folders of random weights."""
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("a", "b")):
        config = load(sets=[*SIZE, f"model.seed={seed}"]).config
        save_scratch(config.model, config.prompt.tags, [], folder / name)
        model = load_model(folder / name)
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(30)  # so that every token says something else
        model.save_pretrained(folder / name)
    return folder


@pytest.fixture
def sage(models, tmp_path, monkeypatch):
    """`sage(...)` where both models have 4 samples of 3 problems."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(drawing, "build_sampler", Same)
    config = load(sets=["evaluation.limit=3", "evaluation.samples=4"]).config
    benchmarks = load_benchmarks(config.evaluation, config.data)
    policies = [Policy(str(models / name)) for name in "ab"]
    root = tmp_path / "runs"
    samples = [PolicySamples.from_config(one, config, root) for one in policies]
    measure(samples, benchmarks, config, Silent())

    def type_(name, *more, models_=("a", "b"), n="4", code=0):
        words = ["analyze", name, *(str(models / one) for one in models_), "--preset", "tiny",
                 "--limit", "3", "--n", n, "--runs", str(root), *more]  # fmt: skip
        result = CliRunner().invoke(app, words)
        assert result.exit_code == code, result.output
        type_.words = words
        return result

    type_.root, type_.problems = root, benchmarks[0].problems
    return type_


def test_all_analyses_are_listed():
    listed = json.loads(CliRunner().invoke(app, ["analyze", "--json"]).stdout)["analyses"]
    assert {"patterns", "perplexity", "support", "modes"} < {one["name"] for one in listed}


def test_an_unknown_analysis_and_a_foreign_option_are_refused(sage):
    assert "did you mean patterns?" in sage("paterns", code=2).output
    assert "does not use --delta" in sage("lengths", "--delta", "0.1", code=2).output
    assert "takes shares from 0 to below 1" in sage("support", "--delta", "0,x", code=2).output
    assert "no problem ids of arithmetic" in sage("lengths", "--problem", "zz", code=2).output
    assert "would be compared with itself" in sage("support", models_="a", code=2).output
    assert "came from no run" in sage("dynamics", code=2).output


def test_without_samples_it_says_how_to_draw_them(sage, models):
    words = " ".join(sage("diversity", n="7", code=2).output.replace("│", " ").split())
    assert "a has 12 of 21 graded samples on arithmetic" in words
    assert f"`sage passk {models / 'a'} {models / 'b'}` and the same options" in words


def test_a_report_of_what_is_stored_and_of_a_problem(sage):
    found = json.loads(sage("lengths", "--json").stdout)
    assert {row["policy"] for row in found["lengths"]} == {"a", "b"}
    assert {one["policy"] for one in found["provenance"]["samples"]} == {"a", "b"}
    assert (sage.root / "reports").is_dir()
    assert "tokens by grade" in sage("lengths").output
    wanted = sage.problems[1].id
    found = json.loads(sage("support", "--problem", wanted[:6], "--json").stdout)
    at_zero = found["runs"][0]["support"][0]
    known = (at_zero[name] for name in ("kept", "gained", "lost", "absent"))
    assert [id_ for ids in known for id_ in ids] == [wanted]
    found = {
        (row["mode"], row["policy"]): row["value"]
        for row in json.loads(sage("modes", "--json").stdout)["modes"]
    }
    assert found["S: share of samples", "b"] == 0.5
    assert json.loads(sage("support", "--json").stdout)["survival"] == []  # nobody is asked
    survived = json.loads(sage("support", "--survival", "--json").stdout)["survival"]
    assert {row["policy"] for row in survived} == {"b less a"}


def test_labels_are_for_tables_and_names_for_commands(sage, models):
    called = ("a=grpo, seed 1", "b=grpo, seed 2")
    found = json.loads(sage("support", "--json", models_=called).stdout)
    assert found["base"] == "grpo, seed 1"
    assert [one["run"] for one in found["runs"]] == ["grpo, seed 2"]
    words = " ".join(
        sage("lengths", n="7", models_=called, code=2).output.replace("│", " ").split()
    )
    assert "grpo, seed 1 has 12 of 21 graded samples" in words
    assert f"sage passk {models / 'a'} {models / 'b'}`" in words


@pytest.mark.slow
def test_what_is_stored_is_analysed_without_any_model_library(sage):
    sage("support", "--json")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(sage.words), json.dumps(HEAVY)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"


def by_hand(model, tokenizer, prompt, text):
    """Mean surprisal by a plain loop, a token at a time."""
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    surprisals = []
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        with torch.no_grad():
            logps = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        surprisals.append(-logps[token].item())
        ids = [*ids, token]
    return surprisals


def test_perplexity_is_that_of_the_base_and_is_read_once(sage, models, monkeypatch):
    found = json.loads(sage("perplexity", "--json").stdout)
    measured = {(r["measure"], r["policy"]): r["value"] for r in found["perplexity"]}
    model, tokenizer = load_model(models / "a"), load_tokenizer(models / "a")
    means = []
    for problem in sage.problems:
        for text in TEXTS:
            ended = text if text.endswith("</SOLUTION>") else text + tokenizer.eos_token
            surprisals = by_hand(model, tokenizer, problem.question, ended)
            means.append(sum(surprisals) / len(surprisals))
    # equally many samples a problem: the mean over problems is that over samples
    assert measured["mean log", "b"] == pytest.approx(sum(means) / len(means), abs=1e-4)
    assert measured["mean log", "a"] == measured["mean log", "b"]  # the same texts, the same base
    monkeypatch.setattr(Policy, "model", None)  # nothing is loaded again
    assert json.loads(sage("perplexity", "--json").stdout)["perplexity"] == found["perplexity"]


@pytest.mark.parametrize(
    ("more", "why"),
    [((), "effective sample size"),
     (("--set", "sampling.temperature=0.5"), "weighs samples of the policy itself"),
     (("--alpha", "0.9"), "greater than or equal to 1")],
)  # fmt: skip
def test_samples_that_cannot_be_sharpened_are_refused(sage, more, why):
    refused = sage("sharpening", *more, code=2).output.replace("│", " ")
    assert why in " ".join(refused.split())


def test_a_reading_that_was_stopped_goes_on_where_it_was(sage, monkeypatch):
    whole = scoring.Forward.scores
    seen = []

    def stopping(self, rows, problems):
        if seen:
            raise KeyboardInterrupt
        seen.extend(rows)
        return whole(self, rows, problems)

    monkeypatch.setattr("sage_cli.store.annotations.READ_AT_ONCE", 1)
    monkeypatch.setattr(scoring.Forward, "scores", stopping)
    sage("entropy", code=130)
    assert len(seen) == 12  # a whole part: all of the first policy's
    read = []

    def counting(self, rows, problems):
        read.extend(rows)
        return whole(self, rows, problems)

    monkeypatch.setattr(scoring.Forward, "scores", counting)
    assert len(json.loads(sage("entropy", "--json").stdout)["problems"]) == 6
    assert len(read) == 12  # the other policy's
