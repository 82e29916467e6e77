"""Methods that can't act are refused before anything is loaded, with what would let them."""

from __future__ import annotations

import pytest

from sage_cli.config.algorithms import ALGORITHMS, algorithm_settings
from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError

GROUP = "rl.rollouts_per_prompt=8"


def algo(name: str) -> dict[str, dict[str, str]]:
    return {"rl": {"algo": name}}


UNGUIDED = {"guided-dpo"}
"""Methods that have no anchor for a guide to shape (`test_methods.py`)."""


@pytest.mark.parametrize(
    ("name", "guide"),
    [
        (name, guide)
        for name in ALGORITHMS
        for guide in ("none", "token", "branch")
        if guide == "none" or name not in UNGUIDED
    ],
)
def test_every_method_loads_with_every_guide(name: str, guide: str):
    config = load(["tiny"], {**algo(name), "guide": {"name": guide}}).config
    assert (config.anchor.kl == "none") == (
        guide == "none" and ALGORITHMS[name].kl_without_guide == "none"
    )
    for key, value in algorithm_settings(name).items():
        assert getattr(config.rl, key) == value


@pytest.mark.parametrize(
    ("name", "sets", "said"),
    [
        ("pass-at-k", ["rl.advantage_options.k=9"], "k is 9, and a group has 8 .* no subset of k"),
        ("pass-at-k", ["rl.advantage_options.k=8"], "its only subset of k is the group"),
        ("pass-at-k", ["rl.overlong_punishment=true"], "'pass-at-k' reads verdicts alone"),
        (
            "pkpo",
            ["rl.advantage_options.k=9"],
            "'favoured' takes at most 8 of a group's 8 completions",
        ),
        (
            "pkpo",
            ["rl.advantage_options={k: 8, form: leave-one-out}"],
            "'leave-one-out' takes at most 7 of a group's 8 completions",
        ),
        ("kl-cov", ["rl.steps_per_generation=1"], "with one update per generation that is 0"),
        ("kl-cov", ["rl.clip=true"], "'kl-cov' adds to a loss that isn't clipped"),
        ("gspo", ["rl.steps_per_generation=1"], "'sequence' .* changes nothing"),
        ("gspo", ["rl.advantage=steer"], "'steer' gives each token an advantage of its own"),
        (
            "gspo",
            ["anchor.kl=reverse", "anchor.estimator=reward"],
            "'reward' gives each token an advantage of its own",
        ),
        ("grpo", ["rl.delta=3"], "rl.delta has nothing to clip with one update per generation"),
        ("grpo", ["rl.clip=false", "rl.loss=sapo"], "clip is false, and only the losses grpo"),
        ("steer", ["rl.clip=false"], "without delta"),
        (
            "adaptive-entropy",
            ["rl.entropy_coefficient=2"],
            "above 1, and entropy_target keeps it in",
        ),
        (
            "80-20",
            ["rl.prompts_per_step=2048", "rollout.max_tokens=2048"],
            r"up to 33,554,432 here, and at most 16,777,216 can be sorted",
        ),
        ("steer", ["rl.advantage_options.forn=exp"], r"no option 'forn'; its options: form, omega"),
        ("grpo", ["rl.advantage_options.k=2"], "'group' has no option 'k'; it has none"),
        ("pass-at-k", ["rl.advantage_options.k=0"], "'pass-at-k': k: .* greater than or equal"),
    ],
)
def test_what_cannot_act_is_refused(name: str, sets: list[str], said: str):
    with pytest.raises(ConfigurationError, match=said):
        load(flags=algo(name), sets=[GROUP, *sets])


def test_two_updates_give_them_something_to_act_on():
    for name in ("gspo", "kl-cov"):
        load(flags=algo(name), sets=["rl.steps_per_generation=1", "rl.iterations=2"])


def test_options_are_complete_whatever_was_said():
    first = load(flags=algo("pkpo"), sets=["rl.advantage_options.k=2"]).config.rl
    assert first.advantage_options == {"k": 2, "form": "favoured", "anneal_after": None}
    plain = load(flags=algo("steer")).config.rl
    said = load(flags=algo("steer"), sets=["rl.advantage_options.form=linear"]).config.rl
    assert plain.determinants() == said.determinants()


def test_another_advantage_forgets_the_options_of_the_one_before():
    of_sets = load(flags=algo("pass-at-k"), sets=["rl.advantage_options.k=2"]).config
    assert changed(of_sets, {"guide.name": "branch"}).rl.advantage_options == {"k": 2}
    assert changed(of_sets, {"rl.algo": "steer"}) == load(flags=algo("steer")).config
    back = changed(changed(of_sets, {"rl.algo": "kl-cov"}), {"rl.algo": "grpo"})
    assert back == load(flags=algo("grpo")).config


def test_an_advantage_that_was_said_against_the_algorithm_keeps_its_options():
    sets = ["rl.advantage=pass-at-k", "rl.advantage_options.k=2"]
    found = changed(load(flags=algo("grpo"), sets=sets).config, {"rl.algo": "dr-grpo"}).rl
    assert (found.loss, found.advantage, found.advantage_options) == (
        "dr_grpo", "pass-at-k", {"k": 2},
    )  # fmt: skip
