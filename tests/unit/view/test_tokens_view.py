"""A completion token by token: read by its policy and the initial one when asked, then stored."""

import math

import pytest
from random_model import random_model
from shown_runs import by_chance, stored_run

from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.view.api import Api

TAGS = ("<start_working_out>", "<end_working_out>", "<SOLUTION>", "</SOLUTION>")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """An initial policy and a training with random weights, each with samples."""
    root, tokenizer = tmp_path_factory.mktemp("runs"), character_tokenizer(TAGS)

    def model(seed):
        def save(folder):
            tokenizer.save_pretrained(folder)
            random_model(tokenizer, seed=seed).save_pretrained(folder)

        return save

    base = stored_run(root, "base", "a", by_chance(2), kind="sft", model=model(0))
    branch = {"guide": {"name": "branch", "tau": 1.0, "rho": 0.5}}
    stored_run(root, "branch", "b", by_chance(2), parent=base.id, settings=branch, model=model(1))
    return root


@pytest.fixture(scope="module")
def asked(root):
    problem = Api(root).answer("problems", {"policies": "rl-branch-bbbbbbbb"})["problems"][0]
    return {"policy": "rl-branch-bbbbbbbb", "problem": problem["problem"], "seed": "0"}


def test_a_reading_is_stored_once_asked_for_and_its_numbers_agree(root, asked):
    found = Api(root).answer("tokens", {**asked, "index": "3"})
    assert found["tokens"] is None
    assert found["reference"] == "sft-base-aaaaaaaa"
    assert found["guide"].startswith("branch (tau 1")
    made = Api(root).answer("tokens", {**asked, "index": "0", "compute": "1"})
    again = Api(root).answer("tokens", {**asked, "index": "0"})
    assert again == made
    assert "".join(again["tokens"]).startswith("Completion 0 of 0")
    assert Api(root).answer("tokens", {**asked, "index": "1"})["tokens"] is None
    found = Api(root).answer("tokens", {**asked, "index": "0", "compute": "1"})
    columns = [found[name] for name in ("surprisal", "entropy", "q", "log_ratio")]
    assert {len(column) for column in columns} == {len(found["tokens"])}
    for surprisal, entropy, q, log_ratio in zip(*columns, strict=True):
        assert surprisal >= 0
        # Eq. 11 in its clamp: q = 1 + rho max(0, H - tau), between 0.6 and 1.4
        assert q == pytest.approx(min(1.4, 1 + 0.5 * max(0.0, entropy - 1.0)), abs=1e-5)
        assert math.isfinite(log_ratio)
    assert any(log_ratio != 0 for log_ratio in found["log_ratio"])  # other weights
    values = {**asked, "policy": "sft-base-aaaaaaaa", "index": "0", "compute": "1"}
    found = Api(root).answer("tokens", values)
    assert found["surprisal"]
    assert [found[name] for name in ("q", "log_ratio", "reference")] == [None, None, None]
