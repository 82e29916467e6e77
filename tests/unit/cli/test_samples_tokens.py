"""`sage samples tokens` as it is typed: whose guide is shown, and in which forms."""

import json
import shutil

import pytest
from random_model import save_scratch

from sage_cli.config.load import load
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.run import Runs

SETTINGS = ["model.hidden=96", "sampling.max_tokens=6"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    config = load(sets=SETTINGS).config
    folder = tmp_path_factory.mktemp("weights")
    save_scratch(config.model, config.prompt.tags, [], folder)
    return folder


@pytest.fixture
def run(sage, weights, tmp_path):
    """Make a run with some settings in the folder where `sage` is typed."""

    def make(*sets):
        config = load(sets=[*SETTINGS, *sets]).config
        run = Runs(tmp_path / "empty" / "runs").at("rl", "x", "3" * 8)
        template = PromptTemplate(config.prompt, "<|end|>").hash
        with run.recording(config.model_dump(mode="json"), kind="rl", template=template):
            shutil.copytree(weights, run.model)
            run.metrics.append({"step": 5})
        return run

    return make


def test_a_run_without_a_guide_shows_branch_and_says_so(sage, run):
    run("rl.algo=dapo")  # no KL at all: still something to look at
    typed = sage("samples", "tokens", "rl-x", "--limit", "2")
    assert typed.code == 0
    said = "rl-x was trained with no guide, so branch is shown with the preset's values"
    assert said in typed.words
    # the record's step 5, as in metrics.jsonl
    assert (
        "guide branch (tau 0.465, rho 0.775, signals of the policy, q in [0.6, 1.4]), with its "
        "values at training step 5"
    ) in typed.words
    assert "the numbers are of the tokens of 2 completions" in typed.words
    # a preset without a guide says nothing about how the run was trained
    named = sage("samples", "tokens", "rl-x", "--limit", "1", "-p", "tiny", "--set", SETTINGS[1])
    assert "tiny has no guide, so branch is shown" in named.words
    assert "q above 1" not in typed.words  # the test's output is no terminal, and has no colours


def test_its_own_guide_with_other_numbers_and_another_guide(sage, answer, run):
    run("guide.name=branch", "guide.tau=0.2", "guide.rho=0.5")
    words = ("samples", "tokens", "rl-x", "--limit", "1")
    shown = answer(*words)
    assert shown["guide"].startswith("branch (tau 0.2, rho 0.5, ")
    assert shown["notes"] == []
    (one,) = shown["completions"]
    q_T, entropy_T = one["values"]["q_T"], one["values"]["entropy_T"]
    expected = [min(1.4, 1 + 0.5 * max(0, entropy - 0.2)) for entropy in entropy_T]
    assert q_T == pytest.approx(expected, abs=1e-5)
    assert len(one["tokens"]) == len(q_T)
    shown = answer(*words, "--rho", "0")
    assert shown["guide"].startswith("branch (tau 0.2, rho 0.0, ")
    assert shown["summary"]["shaped"] == 0
    other = sage(*words, "--guide", "token")
    assert "guide token (alpha [0.3, 0.1]" in other.words
    assert "token is shown with the paper's values" in other.words


def test_mistakes_are_named(sage, run):
    trained = run("guide.name=token")
    for words, said in (
        ("rl-x --tau 1", "guide.tau has an effect only with the branch and"),
        ("rl-x --guide brunch", "(did you mean branch?)"),
        ("nobody", "there is no run 'nobody'"),
    ):
        typed = sage("samples", "tokens", *words.split())
        typed.refused(said)
    assert not (typed.folder / "runs" / "samples").exists()
    settings = trained.read_config() | {"guide": {"name": "gone"}}
    (trained.folder / "config.json").write_text(json.dumps(settings))
    trained.note(files=None)  # as if it had been trained so
    sage("samples", "tokens", "rl-x", "--limit", "1").refused(
        "no installed package registers the guide 'gone'", "install the package that it comes from"
    )


def test_export_as_it_is_typed(sage, answer, run):
    run()
    shown = answer("export", "rl-x", "out")
    assert (shown["folder"], shown["run"], shown["merged"]) == ("out", "rl-x-33333333", False)
    sage("export", "rl-x", "out").refused("already contains a model")
    typed = sage("export", "rl-x", "out", "--force")
    assert "exported rl-x-33333333 (float32, no adapter to merge): out" in typed.words
    assert (typed.folder / "out" / "sage.json").is_file()
