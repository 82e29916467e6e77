"""`sage analyze` from the command line, on stored samples of real, tiny, random models."""

import shutil

import pytest
import torch
from random_model import save_scratch
from scripted import Scripted

from sage_cli.analysis import scoring
from sage_cli.config.load import load
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import measure
from sage_cli.models.loading import load_model
from sage_cli.models.policy import Policy
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.progress import Silent

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
LIBRARIES = {"torch", "transformers", "trl", "peft", "wandb", "datasets", "pandas", "optuna"}
TEXTS = ("S:1", "R:22", "S:1", "D:4</SOLUTION>")


class Same(Scripted):
    """A sampler that says the same of every problem."""

    def text(self, request, index):
        return TEXTS[index]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two folders of random weights, and a folder where both have 4 samples of 3 problems."""
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("a", "b")):
        config = load(sets=[*SIZE, f"model.seed={seed}"]).config
        save_scratch(config.model, config.prompt.tags, [], folder / name)
        model = load_model(folder / name)
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(30)  # so that every token says something else
        model.save_pretrained(folder / name)
    config = load(sets=["evaluation.limit=3", "evaluation.samples=4"]).config
    benchmarks = load_benchmarks(config.evaluation, config.data)
    policies = [Policy(str(folder / name)) for name in "ab"]
    samples = [PolicySamples.from_config(policy, config, folder / "runs") for policy in policies]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "build_sampler", Same)
        measure(samples, benchmarks, config, Silent())
    return folder, benchmarks[0].problems


@pytest.fixture
def words(models, tmp_path):
    """The words of an analysis on a copy of these samples."""
    folder, _ = models
    shutil.copytree(folder / "runs", tmp_path / "runs")

    def words_of(name, *more, of=("a", "b"), n=4):
        policies = [folder / policy for policy in of]
        options = ["--preset", "tiny", "--limit", "3", "--n", n, "--runs", tmp_path / "runs"]
        return ["analyze", name, *policies, *options, *more]

    return words_of


@pytest.fixture
def analyze(sage, words):
    return lambda *named, **asked: sage(*words(*named, **asked))


@pytest.fixture
def found(answer, words):
    """The object that an analysis prints."""
    return lambda *named, **asked: answer(*words(*named, **asked))


def test_a_report_of_what_is_stored_and_what_is_listed(answer, analyze, found, tmp_path):
    listed = answer("analyze")["analyses"]
    assert {"patterns", "perplexity", "support", "modes"} < {one["name"] for one in listed}
    lengths = found("lengths")
    assert {row["policy"] for row in lengths["lengths"]} == {"a", "b"}
    assert {one["policy"] for one in lengths["provenance"]["samples"]} == {"a", "b"}
    assert (tmp_path / "runs" / "reports").is_dir()
    assert "tokens by grade" in analyze("lengths").words
    modes = {(row["mode"], row["policy"]): row["value"] for row in found("modes")["modes"]}
    assert modes["S: share of samples", "b"] == 0.5


@pytest.mark.parametrize(
    ("named", "of", "said"),
    [
        ("paterns", "ab", "did you mean patterns?"),
        ("lengths --delta 0.1", "ab", "does not use --delta"),
        ("support --delta 0,x", "ab", "below 1"),
        ("lengths --problem zz", "ab", "no problem ids of arithmetic"),
        ("support", "a", "would be compared with itself"),
        ("dynamics", "ab", "only runs have training records"),
        # samples that can't be sharpened
        ("sharpening", "ab", "effective sample size"),
        ("sharpening --set sampling.temperature=0.5", "ab", "weighs samples of the policy itself"),
        ("sharpening --alpha 0.9", "ab", "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_analysed_is_refused(analyze, named, of, said):
    analyze(*named.split(), of=of).refused(said)


@pytest.mark.parametrize("of", [("a", "b"), ("a=grpo, seed 1", "b=grpo, seed 2")])
def test_labels_are_for_tables_and_names_for_commands(analyze, found, models, of):
    base, other = (name.rpartition("=")[2] for name in of)
    support = found("support", of=of)
    assert (support["base"], [run["run"] for run in support["runs"]]) == (base, [other])
    analyze("diversity", n=7, of=of).refused(
        f"{base} has 12 of 21 graded samples on arithmetic",
        f"`sage passk {models[0] / 'a'} {models[0] / 'b'}` and the same options",
    )


def test_a_problem_by_the_beginning_of_its_id(found, models):
    wanted = models[1][1].id
    at_zero = found("support", "--problem", wanted[:6])["runs"][0]["support"][0]
    known = (at_zero[name] for name in ("kept", "gained", "lost", "absent"))
    assert [id_ for ids in known for id_ in ids] == [wanted]


@pytest.mark.slow
def test_what_is_stored_is_analysed_without_any_model_library(analyze, words, alone):
    analyze("support", "--json")
    modules, _ = alone(words("support", "--json"))
    assert not modules & LIBRARIES


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


def test_perplexity_is_that_of_the_base_and_is_read_once(found, models, monkeypatch):
    folder, problems = models
    rows = found("perplexity")["perplexity"]
    measured = {(row["measure"], row["policy"]): row["value"] for row in rows}
    model, tokenizer = load_model(folder / "a"), load_tokenizer(folder / "a")
    means = []
    for problem in problems:
        for text in TEXTS:
            ended = text if text.endswith("</SOLUTION>") else text + tokenizer.eos_token
            surprisals = by_hand(model, tokenizer, problem.question, ended)
            means.append(sum(surprisals) / len(surprisals))
    # equally many samples a problem: the mean over problems is that over samples
    assert measured["mean log", "b"] == pytest.approx(sum(means) / len(means), abs=1e-4)
    assert measured["mean log", "a"] == measured["mean log", "b"]  # the same texts, the same base
    monkeypatch.setattr(Policy, "model", None)  # nothing is loaded again
    assert found("perplexity")["perplexity"] == rows


def test_the_bases_samples_are_read_by_those_whom_an_analysis_names(found):
    assert found("support")["survival"] == []  # nobody is asked
    survived = found("support", "--survival")["survival"]
    assert {row["policy"] for row in survived} == {"b less a"}


def test_a_reading_that_was_stopped_goes_on_where_it_was(analyze, found, monkeypatch):
    whole = scoring.Forward.scores
    read = []

    def stopping(self, rows, problems):
        if read:
            raise KeyboardInterrupt
        read.extend(rows)
        return whole(self, rows, problems)

    def counting(self, rows, problems):
        read.extend(rows)
        return whole(self, rows, problems)

    monkeypatch.setattr("sage_cli.store.annotations.READ_AT_ONCE", 1)
    monkeypatch.setattr(scoring.Forward, "scores", stopping)
    assert analyze("entropy").code == 130
    assert len(read) == 12  # a whole part: all of the first policy's
    monkeypatch.setattr(scoring.Forward, "scores", counting)
    assert len(found("entropy")["problems"]) == 6
    assert len(read) == 12 + 12  # the other policy's
