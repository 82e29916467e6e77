import pytest

from sage_cli.config.layers import settings
from sage_cli.config.meaning import meanings, meant_settings
from sage_cli.errors import ConfigurationError


def test_every_setting_has_a_meaning():
    silent = [key for key, many in meanings().items() for one in many if not one.meaning]
    assert silent == []


def test_they_are_the_schemas_settings():
    assert list(meanings()) == list(settings())


def test_type_bounds_default_and_choices():
    (tau,) = meanings()["guide.tau"]
    assert (tau.member, tau.type, tau.default) == (
        "branch, shuffled", "number, at least 0", 1.2,
    )  # fmt: skip
    assert "Eq. 11" in tau.section
    (kl,) = meanings()["anchor.kl"]
    assert (kl.choices, kl.default) == (("reverse", "forward", "none"), "reverse")
    (limit,) = meanings()["evaluation.limit"]
    assert limit.type == "whole number or null, at least 1"
    (epsilon,) = meanings()["guide.epsilon"]
    assert (epsilon.type, epsilon.default) == ("list of 2: number, number", [0.1, 0.0])


def test_what_changes_no_result_says_so():
    assert [one.cosmetic for one in meanings()["rl.save_every"]] == [True]
    assert [one.cosmetic for one in meanings()["rl.steps"]] == [False]


def test_members_of_a_union_that_agree_are_named_together():
    assert [one.member for one in meanings()["guide.cycles"]] == ["random, token"]
    assert [one.member for one in meanings()["rl.steps"]] == [None]
    usual, *others = meanings()["rl.epsilon_high"]
    assert (usual.member, usual.default) == (None, 0.2)
    assert {one.member: one.default for one in others}["rlpr"] == 0.27
    assert {one.type for one in meanings()["model.dtype"]} == {"choice"}
    pretrained, scratch = meanings()["model.dtype"]
    assert set(scratch.choices) < set(pretrained.choices)


def test_a_key_is_found_by_its_end_and_a_section_by_its_beginning():
    assert list(meant_settings("tau")) == ["guide.tau"]
    assert list(meant_settings("rl.steps")) == ["rl.steps"]
    assert set(meant_settings("steps")) == {"sft.steps", "rl.steps", "sweep.steps"}
    assert list(meant_settings("model.lora")) == [
        "model.lora.rank", "model.lora.alpha", "model.lora.dropout", "model.lora.targets",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "meant"), [("guide.taw", "guide.tau"), ("taw", "guide.tau"), ("rl.stesp", "rl.steps")]
)
def test_a_misspelt_key(typed, meant):
    with pytest.raises(ConfigurationError, match=f"there is no setting '{typed}'") as refused:
        meant_settings(typed)
    assert refused.value.next_step == f"did you mean {meant}?"
