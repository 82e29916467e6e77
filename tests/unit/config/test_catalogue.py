"""What the schema says of its settings: which there are, and what each means."""

import subprocess
import sys

import pytest

from sage_cli.config.explain import meanings_of, meant_settings
from sage_cli.config.load import load
from sage_cli.config.schema import setting, settings
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves


def meanings(key):
    return meanings_of(settings()[key])


def test_every_setting_of_a_configuration_is_known_as_among_all():
    config = load(flags={"guide": {"name": "branch"}}).config
    known = settings()
    open_ = tuple(f"{key}." for key, one in known.items() if one.open)
    for key, _ in leaves(config.model_dump(mode="json")):
        assert key in known or key.startswith(open_), key
    for key, listed in settings().items():
        found = setting(key)
        assert found is not None
        assert found.key == key
        for said in ("integer", "cosmetic", "open"):
            assert getattr(found, said) == getattr(listed, said), key
    assert setting("sampling.vllm.swap_space").key == "sampling.vllm"  # open to vLLM's
    for unknown in ("rl", "rl.tau", "rl.steps.more", "steps", "guide.epsilon_high"):
        assert setting(unknown) is None, unknown


def test_whole_numbers_cosmetics_and_mappings_are_told():
    known = settings()
    assert known["rl.steps"].integer
    assert known["rl.micro_batch"].integer  # or null
    assert not known["guide.tau"].integer
    assert not known["rl.dynamic_sampling"].integer
    assert known["rl.save_every"].cosmetic
    assert not known["rl.steps"].cosmetic
    assert known["sampling.options"].open
    assert not known["guide.name"].open
    assert [one.cosmetic for one in meanings("rl.save_every")] == [True]
    assert [one.cosmetic for one in meanings("rl.steps")] == [False]
    silent = [key for key in settings() for one in meanings(key) if not one.meaning]
    assert silent == []


@pytest.mark.parametrize("key", ["rl.steps", "guide.name", "anchor.beta"])
def test_no_other_methods_file_is_read_for_what_all_methods_have(key):
    code = (
        "import sys; from sage_cli.config.schema import setting; "
        f"assert setting('{key}'); print([m for m in sys.modules if m.endswith('.pacs')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_type_bounds_default_choices_and_members():
    (tau,) = meanings("guide.tau")
    assert (tau.member, tau.type, tau.default) == (
        "branch, shuffled",
        "number, at least 0",
        1.2,
    )
    assert "Eq. 11" in tau.section
    (kl,) = meanings("anchor.kl")
    assert (kl.choices, kl.default) == (("reverse", "forward", "none"), "reverse")
    (limit,) = meanings("evaluation.limit")
    assert limit.type == "whole number or null, at least 1"
    (epsilon,) = meanings("guide.epsilon")
    assert (epsilon.type, epsilon.default) == ("list of 2: number, number", [0.1, 0.0])
    assert [one.member for one in meanings("guide.cycles")] == ["random, token"]
    assert [one.member for one in meanings("rl.steps")] == [None]
    usual, *others = meanings("rl.epsilon_high")
    assert (usual.member, usual.default) == (None, 0.2)
    assert {one.member: one.default for one in others}["rlpr"] == 0.27
    assert {one.type for one in meanings("model.dtype")} == {"choice"}
    pretrained, scratch = meanings("model.dtype")
    assert set(scratch.choices) < set(pretrained.choices)


def test_a_key_is_found_by_its_end_and_a_section_by_its_beginning():
    assert list(meant_settings("tau")) == ["guide.tau"]
    assert list(meant_settings("rl.steps")) == ["rl.steps"]
    assert set(meant_settings("steps")) == {"sft.steps", "rl.steps", "sweep.steps"}
    assert list(meant_settings("model.lora")) == [
        "model.lora.rank",
        "model.lora.alpha",
        "model.lora.dropout",
        "model.lora.targets",
    ]


@pytest.mark.parametrize(
    ("typed", "meant"), [("guide.taw", "guide.tau"), ("taw", "guide.tau"), ("rl.stesp", "rl.steps")]
)
def test_a_misspelt_key(typed, meant):
    with pytest.raises(ConfigurationError, match=f"there is no setting '{typed}'") as refused:
        meant_settings(typed)
    assert refused.value.next_step == f"did you mean {meant}?"
