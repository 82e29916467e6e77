"""The authors' settings: what the layer says, where it lies, and that docs/fidelity.md lists it."""

import re
from pathlib import Path

import pytest
import yaml

from sage_cli.config.load import load
from sage_cli.json_value import leaves
from sage_cli.settings.compat import (
    DIFFERENCES,
    EVALUATION_DIFFERENCES,
    OFFICIAL_SYSTEM_PROMPT,
    Difference,
    official_settings,
)

ORIGIN = "compat official"
PAPER = ["qwen2.5-math-7b"]


def official(presets=PAPER, sets=(), stored=None, *, algo="dapo", guide="random"):
    flags = {"rl": {"algo": algo, "compat": "official"}, "guide": {"name": guide}}
    return load(presets, flags, sets, stored)


def documented(heading="## `--compat official`"):
    """The rows of the table below a heading, and the column of our own values."""
    text = (Path(__file__).parents[3] / "docs" / "fidelity.md").read_text()
    section = text.partition(heading)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| (.+?) \|$", section, re.MULTILINE)
    return [
        (
            Difference(
                setting, yaml.safe_load(value),
                () if concerns == "every run" else tuple(concerns.split(", ")),
            ),
            yaml.safe_load(ours),
        )
        for setting, ours, value, concerns in rows
    ]  # fmt: skip


def test_the_documented_differences_are_those_of_the_layer():
    assert tuple(difference for difference, _ in documented()) == DIFFERENCES


def test_the_documented_values_of_ours_are_what_applies_without_it():
    flags = {"rl": {"algo": "dapo"}, "guide": {"name": "random"}}
    ours = dict(leaves(load(PAPER, flags).config.model_dump(mode="json")))
    assert {difference.setting: value for difference, value in documented()} == {
        difference.setting: ours[difference.setting] for difference in DIFFERENCES
    }


def test_every_difference_applies_is_attributed_and_nothing_else_changes():
    loaded = official()
    theirs = {difference.setting: difference.value for difference in DIFFERENCES}
    found = {name: value for name, value, origin in loaded.table() if origin == ORIGIN}
    assert found == theirs
    flags = {"rl": {"algo": "dapo"}, "guide": {"name": "random"}}
    before = dict(leaves(load(PAPER, flags).config.model_dump(mode="json")))
    after = dict(leaves(loaded.config.model_dump(mode="json")))
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {*theirs, "rl.compat"}
    assert loaded.config.rl.epsilon_high == 0.28  # DAPO's, which theirs sets as well


@pytest.mark.parametrize(
    ("name", "value"), [("rl.prompts_per_step", 4), ("anchor.reference", "initial")]
)
def test_each_is_overridden_on_its_own(name, value):
    loaded = official(sets=[f"{name}={value}"])
    said = {key: (setting, origin) for key, setting, origin in loaded.table()}
    assert said.pop(name) == (value, "--set")
    others = {difference.setting for difference in DIFFERENCES} - {name}
    assert {key for key, (_, origin) in said.items() if origin == ORIGIN} == others


def test_what_a_run_has_nothing_of_is_left_alone():
    loaded = official(algo="grpo", guide="branch")
    found = {name for name, _, origin in loaded.table() if origin == ORIGIN}
    others = {"guide.schedule_clock", "rl.dynamic_sampling", "rl.overlong_buffer"}
    assert found == {difference.setting for difference in DIFFERENCES} - others
    # the tiny preset's model is from scratch, tuned in full: before it there is nothing
    assert official(["tiny"]).config.anchor.reference == "initial"
    assert official(["tiny"], ["model.tuning=lora"]).config.anchor.reference == "base"
    assert "anchor.reference" not in official_settings(("grpo", "none", "full"))


def test_without_warm_up_its_settings_and_the_base_models_length_are_left_alone():
    loaded = official(["r1-distill-qwen-7b"])
    assert loaded.config.rollout.max_tokens == 6144
    found = {name for name, _, origin in loaded.table() if origin == ORIGIN}
    assert not found & {"data.sft.measured", "sft.loss", "sft.seed"}
    assert loaded.config.prompt.system == OFFICIAL_SYSTEM_PROMPT
    # what the tiny preset's base is made from stays what it is
    theirs, ours = (official(["tiny"], sets).config for sets in ([], ["rl.compat=none"]))
    for section in ("model", "prompt", "data", "sft"):
        assert getattr(theirs, section) == getattr(ours, section)


def test_in_full_tuning_after_warm_up_the_reference_is_the_published_model():
    full = ["model.tuning=full", "model.dtype=float32"]
    assert official(sets=full).config.anchor.reference == "base"
    assert official(sets=[*full, "sft.enabled=false"]).config.anchor.reference == "initial"


def test_the_authors_optimiser_batch_is_half_a_generation():
    rl = official().config.rl
    # 16 completions are drawn for two steps of 8, at a constant rate from the first of them on
    assert rl.prompts_per_step * rl.rollouts_per_prompt == 8
    assert rl.steps_per_batch == 2
    assert (rl.scheduler, rl.warmup_ratio) == ("constant", 0)


def test_it_lies_over_the_presets_before_it_and_under_those_after_it(layer):
    own = layer("rl: {prompts_per_step: 4}\nguides: {token: {schedule_clock: optimiser_step}}")
    asks = layer("rl: {compat: official, algo: dapo, dynamic_sampling: true}", "asks.yaml")
    flags = {"guide": {"name": "token"}}
    before = load([*PAPER, own, asks], flags).config
    assert (before.rl.prompts_per_step, before.guide.schedule_clock) == (1, "loss_call")
    # what is said beside it stays
    assert (before.rl.dynamic_sampling, before.rl.overlong_buffer) == (True, None)
    after = load([*PAPER, asks, own], flags).config
    assert after.rl.prompts_per_step == 4
    chosen_later = load([*PAPER, asks], {"rl": {"algo": "dapo"}}).config
    assert chosen_later.rl.dynamic_sampling is True  # said beside it, as before
    assert chosen_later.rl.overlong_buffer is None
    chosen = load([*PAPER, asks, layer("guide: {name: token}", "t.yaml"), own], {}).config
    assert chosen.guide.schedule_clock == "optimiser_step"


def test_a_stored_configuration_keeps_what_was_overridden_in_it():
    stored = official(sets=["rl.prompts_per_step=4"]).config
    again = load(stored=stored.model_dump(mode="json"))
    assert again.config == stored
    assert ORIGIN not in again.origins.values()


def test_compat_none_takes_it_back(layer):
    asks = layer("rl: {compat: official}")
    back = load([*PAPER, asks], {"rl": {"compat": "none"}})
    assert back.config == load(PAPER).config


EVALUATION = "## An evaluation with `--compat official`"
ASKED = {"evaluation": {"compat": "official"}}


def test_the_documented_differences_of_an_evaluation_are_those_of_the_layer():
    rows = documented(EVALUATION)
    assert tuple(difference for difference, _ in rows) == EVALUATION_DIFFERENCES
    ours = dict(leaves(load(PAPER).config.model_dump(mode="json")))
    for difference, value in rows:
        assert ours[difference.setting] == value


def test_an_evaluation_as_the_authors_over_a_stored_configuration_and_overridden():
    stored = load(PAPER, {"rl": {"compat": "official"}}).config
    loaded = load((), ASKED, ["sampling.top_p=0.5"], stored.model_dump(mode="json"))
    theirs = {difference.setting: difference.value for difference in EVALUATION_DIFFERENCES}
    found = {name: value for name, value, origin in loaded.table() if origin == ORIGIN}
    assert found == {name: v for name, v in theirs.items() if name != "sampling.top_p"}
    assert loaded.config.sampling.top_p == 0.5
    before = dict(leaves(stored.model_dump(mode="json")))
    after = dict(leaves(loaded.config.model_dump(mode="json")))
    changed = {name for name in after if after[name] != before[name]}
    # the authors' values in both
    as_trained = {"grading.mode", "grading.extract", "grading.unfinished"}
    assert changed == {*theirs, "evaluation.compat"} - as_trained
