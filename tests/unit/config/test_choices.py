"""Other choices in a complete configuration lead where they lead when they are typed."""

from itertools import product

import pytest

from sage_cli.config.load import changed, load

GUIDES = ("none", "token", "branch")
ALGORITHMS = ("grpo", "dapo", "dr-grpo")


@pytest.mark.parametrize("preset", ["tiny", "qwen2.5-math-7b"])
@pytest.mark.parametrize("compat", ["none", "official"])
def test_a_changed_choice_is_a_typed_one(preset, compat):
    typed = {
        (guide, algo): load(
            [preset], {"guide": {"name": guide}, "rl": {"algo": algo, "compat": compat}}
        ).config
        for guide, algo in product(GUIDES, ALGORITHMS)
    }
    for before, (choice, wanted) in product(typed.values(), typed.items()):
        guide, algo = choice
        assert changed(before, {"guide.name": guide, "rl.algo": algo}) == wanted


def test_what_was_said_against_the_algorithm_stays():
    own = load(flags={"rl": {"algo": "grpo"}}, sets=["rl.epsilon_high=0.25", "anchor.kl=none"])
    found = changed(own.config, {"rl.algo": "dapo"})
    assert (found.rl.epsilon_high, found.rl.loss, found.anchor.kl) == (0.25, "dapo", "none")


def test_what_is_said_beside_a_choice_counts():
    branch = load(flags={"guide": {"name": "branch"}}).config
    found = changed(branch, {"rl.algo": "dapo", "rl.epsilon_high": 0.3, "guide.tau": 0.1})
    assert (found.rl.epsilon_high, found.guide.tau, found.guide.rho) == (0.3, 0.1, 0.775)
    again = changed(branch, {"guide.name": "token"})
    assert changed(again, {"guide.name": "branch"}) == branch
