"""The same words name the same run, whichever command says them, and in whatever order."""

import json
import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.config.load import Loaded, changed, load, with_layers
from sage_cli.errors import ConfigurationError

ALGOS = st.sampled_from(["grpo", "dapo", "gspo", "pkpo", "pass-at-k", "clip-cov"])
GUIDES = st.sampled_from(["none", "random", "token", "branch"])
CHOICES = {"rl.algo": ALGOS, "guide.name": GUIDES}
GENERAL = {
    "rl.epsilon_high": st.sampled_from([0.1, 0.3]),
    "rl.steps": st.integers(1, 9),
    "rl.steps_per_generation": st.sampled_from([2, 3]),
    "anchor.beta": st.sampled_from([0.1, 0.2]),
    "guide.q_max": st.sampled_from([1.5, 2.0]),
}
OWN = {
    "dapo": {"rl.dynamic_sampling": st.booleans()},
    "pkpo": {"rl.k": st.sampled_from([2, 3])},
    "pass-at-k": {"rl.k": st.sampled_from([2, 3])},
    "clip-cov": {"rl.share": st.sampled_from([0.1, 0.2])},
    "random": {"guide.cycles": st.sampled_from([3, 4])},
    "token": {"guide.norm": st.sampled_from(["rank", "zscore"])},
    "branch": {"guide.tau": st.sampled_from([0.1, 0.9])},
}


@st.composite
def said(draw):
    """Choices, settings that most have, and settings of what is chosen."""
    found = draw(st.fixed_dictionaries({}, optional={**CHOICES, **GENERAL}))
    own = {k: v for name in CHOICES for k, v in OWN.get(found.get(name, ""), {}).items()}
    return found | draw(st.fixed_dictionaries({}, optional=own))


WORDS = said()


def nested(words):
    found = {}
    for name, value in words.items():
        section, _, key = name.partition(".")
        found.setdefault(section, {})[key] = value
    return found


def typed(words):
    return [f"{name}={json.dumps(value)}" for name, value in words.items()]


def made(load_it):
    """The configuration; None where the words are refused."""
    try:
        found = load_it()
    except ConfigurationError:
        return None
    return found.config if isinstance(found, Loaded) else found


def preset(words):
    """A file that says them."""
    folder = Path(tempfile.mkdtemp())
    (folder / "own.json").write_text(json.dumps(nested(words)))
    return str(folder / "own.json")


@settings(max_examples=60, deadline=None)
@given(file=WORDS, words=WORDS, data=st.data())
def test_flags_and_sets_say_the_same_in_any_order(file, words, data):
    own = ["tiny", preset(file)]
    names = data.draw(st.permutations(list(words)))
    flags = data.draw(st.sets(st.sampled_from(names))) if names else set()
    mixed = made(
        lambda: load(
            own,
            nested({name: words[name] for name in flags}),
            typed({name: words[name] for name in names if name not in flags}),
        )
    )
    assert mixed == made(lambda: load(own, sets=typed(words)))


@settings(max_examples=80, deadline=None)
@given(file=WORDS, words=WORDS, trial=WORDS)
def test_a_trial_is_what_rl_names_by_the_same_words(file, words, trial):
    """A sweep's trial, a suite's arm: settings over a configuration, in one step or in several."""
    own = ["tiny", preset(file)]
    shared = made(lambda: load(own, sets=typed(words)))
    typed_once = made(lambda: load(own, sets=typed({**words, **trial})))
    if shared is None or typed_once is None:
        return
    assert changed(shared, trial) == typed_once
    now = shared
    for name, value in trial.items():
        now = now and made(lambda name=name, value=value, now=now: changed(now, {name: value}))
    assert now is None or now == typed_once


@settings(max_examples=40, deadline=None)
@given(file=WORDS, words=WORDS)
def test_a_stored_configuration_is_the_one_it_was_stored_from(file, words):
    config = made(lambda: load(["tiny", preset(file)], sets=typed(words)))
    if config is None:
        return
    again = load(stored=config.model_dump(mode="json")).config
    assert again == config


@settings(max_examples=80, deadline=None)
@given(file=WORDS, words=WORDS, trial=WORDS)
def test_a_stored_sweep_goes_on_with_the_same_trials(file, words, trial):
    config = made(lambda: load(["tiny", preset(file)], sets=typed(words)))
    if config is None:
        return
    again = load(stored=json.loads(json.dumps(with_layers(config)))).config
    assert again == config
    trials = [made(lambda base=base: changed(base, trial)) for base in (again, config)]
    assert trials[0] == trials[1]


@settings(max_examples=40, deadline=None)
@given(words=WORDS, algo=ALGOS)
def test_choosing_a_method_again_changes_nothing(words, algo):
    """A file that chooses it, and an option that says so once more."""
    own = preset({**words, "rl.algo": algo})
    plain, again = (made(lambda f=f: load(["tiny", own], f)) for f in ({}, {"rl": {"algo": algo}}))
    assert again == plain


GUIDE_NAMES = ("none", "token", "branch")
ALGORITHMS = ("grpo", "dapo", "dr-grpo")


@pytest.mark.parametrize("preset", ["tiny", "qwen2.5-math-7b"])
@pytest.mark.parametrize("compat", ["none", "official"])
def test_a_changed_choice_is_a_typed_one(preset, compat):
    typed = {
        (guide, algo): load(
            [preset], {"guide": {"name": guide}, "rl": {"algo": algo, "compat": compat}}
        ).config
        for guide, algo in product(GUIDE_NAMES, ALGORITHMS)
    }
    for before, (choice, wanted) in product(typed.values(), typed.items()):
        guide, algo = choice
        assert changed(before, {"guide.name": guide, "rl.algo": algo}) == wanted


def test_what_was_said_beside_a_choice_counts():
    own = load(flags={"rl": {"algo": "grpo"}}, sets=["rl.epsilon_high=0.25", "anchor.kl=none"])
    found = changed(own.config, {"rl.algo": "dapo"})
    assert (found.rl.epsilon_high, found.rl.loss, found.anchor.kl) == (0.25, "dapo", "none")
    branch = load(flags={"guide": {"name": "branch"}}).config
    found = changed(branch, {"rl.algo": "dapo", "rl.epsilon_high": 0.3, "guide.tau": 0.1})
    assert (found.rl.epsilon_high, found.guide.tau, found.guide.rho) == (0.3, 0.1, 0.775)
    again = changed(branch, {"guide.name": "token"})
    assert changed(again, {"guide.name": "branch"}) == branch
