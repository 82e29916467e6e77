"""What a teacher without a reward settles, and what it can't be trained with."""

import re

import pytest

from sage_cli.config.load import changed, load, with_layers
from sage_cli.errors import ConfigurationError
from sage_cli.models.facts import remarks

TEACHER, NO_REWARD = "anchor.reference=org/teacher", "rl.rewards=[]"


def settled(config):
    rl, anchor = config.rl, config.anchor
    return anchor.kl, anchor.beta, anchor.estimator, rl.dynamic_sampling, rl.overlong_buffer


@pytest.mark.parametrize("algo", ["grpo", "dapo", "dr-grpo", "bnpo", "80-20"])
def test_a_teacher_alone_teaches_by_the_whole_divergence(algo):
    config = load(flags={"rl": {"algo": algo}}, sets=[TEACHER, NO_REWARD]).config
    # not the .04 that the preset tiny has, nor DAPO's sampling and punishment
    assert settled(config) == ("reverse", 1.0, "reward", False, None)
    assert config.distils


def test_rewards_of_weight_0_are_recorded_beside_it():
    sets = [TEACHER, "rl.rewards=[{name: format, weight: 0}, {name: grade, weight: 0}]"]
    assert load(sets=sets).config.distils


def test_what_is_said_wins(layer):
    typed = load(sets=[TEACHER, NO_REWARD, "anchor.beta=0.5", "anchor.estimator=head"]).config
    assert settled(typed)[1:3] == (0.5, "head")
    own = layer("{anchor: {reference: org/teacher, beta: 0.3}, rl: {rewards: []}}", "own.yaml")
    assert settled(load(["tiny", own]).config)[1:3] == (0.3, "reward")


@pytest.mark.parametrize("sets", [[TEACHER, NO_REWARD], [TEACHER, NO_REWARD, "anchor.beta=0.5"]])
def test_stored_and_changed_it_stays_what_it_was(sets):
    config = load(sets=sets).config
    assert load(stored=with_layers(config)).config == config
    assert load(stored=config.model_dump(mode="json")).config == config
    assert settled(changed(config, {"rl.steps": 7})) == settled(config)
    # a reward again: nothing of distillation is left but what was typed
    rewarded = changed(config, {"rl.rewards": ["grade"]})
    assert not rewarded.distils
    assert rewarded.anchor.estimator == "k3"
    plain = load().config
    assert settled(changed(plain, {"anchor.reference": "org/teacher", "rl.rewards": []}))[1] == 1.0


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["anchor.beta=0"], "which teaches by the reverse KL alone, and there is none"),
        (["anchor.kl=none"], "which teaches by the reverse KL alone, and there is none"),
        (["anchor.kl=forward"], "which teaches by the reverse KL alone, and there is none"),
        (["anchor.estimator=k3"], "anchor.estimator 'k3' can't distil"),
        (["anchor.estimator=k3-corrected"], "anchor.estimator 'k3-corrected' can't distil"),
        (["anchor.ema=0.9"], "'org/teacher', another model than the policy: it can't follow"),
        (["anchor.reset_every=3"], "another model than the policy: it can't follow it"),
        (["rl.dynamic_sampling=true"], "rl.dynamic_sampling replaces groups of equal grades"),
        (["rl.algo=dapo", "rl.overlong_buffer=0.2"], "which is a reward, and rl.rewards has none"),
        (["rl.algo=archer"], "rl.algo 'archer' makes its loss of rewards"),
        (["rl.algo=pass-at-k"], "rl.algo 'pass-at-k' makes its loss of rewards"),
        (["guide.name=random"], "guide 'random' drops out in expectation under"),
        (["guide.name=branch", "anchor.estimator=head"], "guide 'branch' drops out in expect"),
        (["guide.name=random", "anchor.estimator=head"], "guide 'random' drops out in expect"),
    ],
)
def test_what_it_can_not_be_trained_with_is_refused_with_the_way_out(sets, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)) as caught:
        load(sets=[TEACHER, NO_REWARD, *sets])
    assert "(use " in caught.value.cause


@pytest.mark.parametrize(
    "sets",
    [
        ["guide.name=branch"],
        ["guide.name=token"],
        ["guide.name=token", "anchor.estimator=head"],
        ["anchor.schedule=cosine"],
        ["rl.algo=gspo", "anchor.estimator=head"],
    ],
)
def test_what_acts_on_a_teacher_is_taken(sets):
    assert load(sets=[TEACHER, NO_REWARD, *sets]).config.distils


@pytest.mark.parametrize("reference", ["initial", "pre-sft", "base"])
def test_without_a_teacher_no_reward_is_an_error(reference):
    model = ["model.kind=pretrained", "model.path=org/model"]
    with pytest.raises(
        ConfigurationError, match=r"rl.rewards rewards nothing.*anchor.reference=MODEL"
    ):
        load(sets=[*model, f"anchor.reference={reference}", NO_REWARD])


def test_a_folder_that_is_called_like_a_word_is_named_by_its_path():
    assert load(sets=["anchor.reference=./base"]).config.anchor.teacher == "./base"
    assert load(sets=["anchor.reference=initial"]).config.anchor.teacher is None


@pytest.mark.parametrize(("estimator", "warned"), [("k3", True), ("head", False)])
def test_beside_a_reward_k3_is_warned_of(estimator, warned):
    config = load(sets=[TEACHER, f"anchor.estimator={estimator}"]).config
    assert not config.distils
    assert any("without a bound" in said for said in remarks(config)) == warned


def test_a_plan_says_that_there_is_no_reward():
    (said,) = [s for s in remarks(load(sets=[TEACHER, NO_REWARD]).config) if "no reward" in s]
    assert "recorded only" in said
