"""The authors' settings: what the layer says, where it lies, and that docs/fidelity.md lists it."""

import re
from pathlib import Path

import pytest
import yaml

from sage_cli.config.load import load
from sage_cli.json_value import leaves
from sage_cli.settings.official import (
    DIFFERENCES,
    EVALUATION_DIFFERENCES,
    OFFICIAL_SYSTEM_PROMPT,
    OfficialDifference,
    official_settings,
)

ORIGIN = "compat official"
PAPER = ["qwen2.5-math-7b"]


def values(config):
    """Settings by their dotted names."""
    return dict(leaves(config.model_dump(mode="json")))


def theirs(loaded):
    """The settings that the authors' layer gave."""
    return {name: value for name, value, origin in loaded.table() if origin == ORIGIN}


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
            OfficialDifference(
                setting,
                yaml.safe_load(value),
                () if concerns == "every run" else tuple(concerns.split(", ")),
            ),
            yaml.safe_load(ours),
        )
        for setting, ours, value, concerns in rows
    ]


@pytest.mark.parametrize(
    ("heading", "differences", "flags"),
    [
        ("`--compat official`", DIFFERENCES, {"rl": {"algo": "dapo"}, "guide": {"name": "random"}}),
        ("An evaluation with `--compat official`", EVALUATION_DIFFERENCES, {}),
    ],
)
def test_the_documented_differences_and_values_of_ours_are_those_of_the_layer(
    heading, differences, flags
):
    rows = documented(f"## {heading}")
    assert tuple(difference for difference, _ in rows) == differences
    ours = values(load(PAPER, flags).config)  # what applies without it
    assert [value for _, value in rows] == [ours[one.setting] for one, _ in rows]


def test_each_difference_applies_and_is_left_alone_where_there_is_nothing_of_it():
    loaded = official()
    differences = {difference.setting: difference.value for difference in DIFFERENCES}
    assert theirs(loaded) == differences
    before = values(load(PAPER, {"rl": {"algo": "dapo"}, "guide": {"name": "random"}}).config)
    after = values(loaded.config)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {*differences, "rl.compat"}
    rl = loaded.config.rl
    assert rl.epsilon_high == 0.28  # DAPO's, which theirs sets as well
    # 16 completions are drawn for two steps of 8, at a constant rate from the first of them on
    assert rl.prompts_per_step * rl.rollouts_per_prompt == 8
    assert rl.steps_per_batch == 2
    assert (rl.scheduler, rl.warmup_ratio) == ("constant", 0)
    others = {"guide.schedule_clock", "rl.dynamic_sampling", "rl.overlong_buffer"}
    left = {difference.setting for difference in DIFFERENCES} - others
    assert set(theirs(official(algo="grpo", guide="branch"))) == left
    # the tiny preset's model is from scratch, tuned in full: before it there is nothing
    assert official(["tiny"]).config.anchor.reference == "initial"
    assert official(["tiny"], ["model.tuning=lora"]).config.anchor.reference == "pre-sft"
    assert "anchor.reference" not in official_settings(("grpo", "none", "full"))
    loaded = official(["r1-distill-qwen-7b"])
    assert loaded.config.rollout.max_tokens == 6144
    assert not {*theirs(loaded)} & {"data.sft.measured", "sft.loss", "sft.seed"}
    assert loaded.config.prompt.system == OFFICIAL_SYSTEM_PROMPT
    # what the tiny preset's base is made from stays what it is
    with_it, ours = (official(["tiny"], sets).config for sets in ([], ["rl.compat=none"]))
    for section in ("model", "prompt", "data", "sft"):
        assert getattr(with_it, section) == getattr(ours, section)
    full = ["model.tuning=full", "model.dtype=float32"]
    assert official(sets=full).config.anchor.reference == "pre-sft"
    assert official(sets=[*full, "sft.enabled=false"]).config.anchor.reference == "initial"


@pytest.mark.parametrize(
    ("name", "value"), [("rl.prompts_per_step", 4), ("anchor.reference", "initial")]
)
def test_each_is_overridden_on_its_own(name, value):
    loaded = official(sets=[f"{name}={value}"])
    assert (name, value, "--set") in loaded.table()
    assert set(theirs(loaded)) == {difference.setting for difference in DIFFERENCES} - {name}


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


def test_it_may_be_taken_back_and_what_was_overridden_stays(layer):
    stored = official(sets=["rl.prompts_per_step=4"]).config
    again = load(stored=stored.model_dump(mode="json"))
    assert again.config == stored
    assert ORIGIN not in again.origins.values()
    back = load([*PAPER, layer("rl: {compat: official}")], {"rl": {"compat": "none"}})
    assert back.config == load(PAPER).config


ASKED = {"evaluation": {"compat": "official"}}


def test_an_evaluation_as_the_authors_over_a_stored_configuration_and_overridden():
    stored = load(PAPER, {"rl": {"compat": "official"}}).config
    loaded = load((), ASKED, ["sampling.top_p=0.5"], stored.model_dump(mode="json"))
    differences = {difference.setting: difference.value for difference in EVALUATION_DIFFERENCES}
    without = {name: v for name, v in differences.items() if name != "sampling.top_p"}
    assert theirs(loaded) == without
    assert loaded.config.sampling.top_p == 0.5
    before, after = values(stored), values(loaded.config)
    changed = {name for name in after if after[name] != before[name]}
    # the authors' values in both
    as_trained = {"grading.mode", "grading.extract", "grading.unfinished"}
    assert changed == {*differences, "evaluation.compat"} - as_trained
