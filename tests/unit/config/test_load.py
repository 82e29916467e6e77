"""The words that make a configuration, typed again, make it."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.config.load import OF_RL, changed, load, options_for, typed
from sage_cli.config.schema import SageConfig
from sage_cli.settings.presets import preset_names, yaml_value
from sage_cli.trials.search.planned_sweep import point_config, shared_config


def retyped(words):
    """The configuration of `sage rl` with these words, its options read as they stand."""
    given = {name: [] for name in ("--preset", "--algo", "--compat", "--guide", "--set")}
    for name, value in zip(words[::2], words[1::2], strict=True):
        given[name].append(value)
    one = {name: values[0] if values else None for name, values in given.items()}
    flags = {"rl": {"algo": one["--algo"], "compat": one["--compat"]},
             "guide": {"name": one["--guide"]}}  # fmt: skip
    return load(given["--preset"], flags, given["--set"]).config


def of_rl(config: SageConfig):
    return config.model_dump(mode="json", include=set(OF_RL))


TRIALS = st.fixed_dictionaries(
    {},
    optional={
        "rl.steps": st.integers(1, 500),
        "rl.learning_rate": st.floats(1e-7, 1e-1),
        "anchor.beta": st.floats(1e-3, 1),
        "rl.algo": st.sampled_from(["grpo", "dapo", "dr-grpo"]),
        "guide.name": st.sampled_from(["branch", "token", "random"]),
        "rollout.temperature": st.floats(0.5, 1.5),
        "prompt.system": st.one_of(st.none(), st.sampled_from(["on", "1e-5", "a: b\n'c' \"d\""])),
    },
)


@settings(max_examples=40, deadline=None)
@given(preset=st.sampled_from(preset_names()), trial=TRIALS, seed=st.integers(0, 2))
def test_a_trials_command_makes_its_configuration(preset, trial, seed):
    sweep = load([preset], {"guide": {"name": "branch"}}, ["sweep.steps=7"]).config
    config = point_config(shared_config(sweep), trial, seed)
    words = options_for(config)
    assert words is not None
    again = retyped(shlex.split(shlex.join(words)))
    assert of_rl(again) == of_rl(config)


def test_only_what_the_preset_does_not_say_is_said():
    config = load(["tiny"], {"guide": {"name": "branch"}, "rl": {"algo": "dapo"}}).config
    assert options_for(config) == ("--preset", "tiny", "--algo", "dapo", "--guide", "branch")
    other = changed(config, {"guide.tau": 0.31, "rl.steps": 3})
    assert options_for(other)[6:] == ("--set", "rl.steps=3", "--set", "guide.tau=0.31")


def test_what_no_preset_leads_to_is_none(monkeypatch):
    config = load(["tiny"]).config
    monkeypatch.setattr("sage_cli.config.load.preset_names", tuple)
    assert options_for(config) is None


@pytest.mark.parametrize("value", ["on", "1e-5", "1", "null", "", "a: b", "#x", "plain", 0.1, None])
def test_texts_stay_texts(value):
    assert yaml_value(typed(value)) == value
