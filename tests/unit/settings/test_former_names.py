"""Renamed settings and values: former names are read for ever, and they are what is hashed."""

import pytest

from sage_cli.config.load import load
from sage_cli.settings.anchor import AnchorSection
from sage_cli.settings.former_names import FORMER, Former, hashed_key, today, today_key
from sage_cli.settings.rollout import RolloutSection
from sage_cli.settings.sampling import SamplingSection
from sage_cli.settings.section import Section

RENAMED = [
    (row.setting, former, present) for row in FORMER for former, present in row.values.items()
]
SECTIONS = {"anchor": AnchorSection, "rollout": RolloutSection, "sampling": SamplingSection}


@pytest.mark.parametrize(("setting", "former", "present"), RENAMED)
def test_both_spellings_are_one_value_with_one_hash(setting, former, present):
    section, _, name = setting.partition(".")
    read, written = (SECTIONS[section](**{name: value}) for value in (former, present))
    assert getattr(read, name) == getattr(written, name) == present
    assert read.determinants() == written.determinants()
    # `sampling.backend` changes no result, so that no hash has it
    hashed = {"sampling": None}.get(section, former)
    assert written.determinants().get(name) == hashed


@pytest.mark.parametrize(("setting", "former", "present"), RENAMED)
def test_a_former_spelling_can_be_typed(setting, former, present):
    section, _, name = setting.partition(".")
    config = load(["qwen2.5-math-7b"], sets=[f"{setting}={former}"]).config
    assert getattr(getattr(config, section), name) == present


def test_other_values_of_the_same_word_are_kept():
    # in `rollout.backend`, `transformers` is another program: that library's `generate`
    section = RolloutSection(backend="transformers")
    assert section.backend == section.determinants()["backend"] == "transformers"


def test_a_stored_configuration_is_read_in_todays_spelling():
    stored = {
        "anchor": {"reference": "base", "beta": 0.1},
        "rollout": {"backend": "transformers"},
        "sampling": {"backend": "transformers"},
        "run": "of another form",
    }
    assert today(stored) == {
        "anchor": {"reference": "pre-sft", "beta": 0.1},
        "rollout": {"backend": "transformers"},
        "sampling": {"backend": "builtin"},
        "run": "of another form",
    }
    assert stored["anchor"]["reference"] == "base"


ROW = Former("data.rl.pass_rate", "Renamed", "solved", {"all": "any"})


class Renamed(Section):
    """A section with a setting that had another name."""

    pass_rate: str = "any"
    seed: int = 3

    @classmethod
    def former(cls):
        return (ROW,)


def test_a_renamed_setting_is_one_row():
    stored = {"data": {"rl": {"solved": "all", "seed": 4}}, "rl": {"solved": 0.5}}
    current = {"data": {"rl": {"pass_rate": "any", "seed": 4}}, "rl": {"solved": 0.5}}
    assert today(stored, [ROW]) == today(current, [ROW]) == current
    assert stored["data"]["rl"] == {"solved": "all", "seed": 4}
    assert today({"data": {"rl": None}}, [ROW]) == {"data": {"rl": None}}
    assert today_key("data.rl.solved", [ROW]) == "data.rl.pass_rate"
    assert today_key("rl.solved", [ROW]) == "rl.solved"
    assert hashed_key("data.rl.pass_rate", [ROW]) == "data.rl.solved"
    read = Renamed(solved="all", seed=4)
    assert read == Renamed(pass_rate="any", seed=4)
    assert read.determinants() == {"solved": "all", "seed": 4}
    assert Renamed(pass_rate="0.1..0.2").determinants() == {"solved": "0.1..0.2", "seed": 3}
    for both in (
        lambda: today({"data": {"rl": {"solved": "a", "pass_rate": "b"}}}, [ROW]),
        lambda: Renamed(solved="a", pass_rate="b"),
    ):
        with pytest.raises(ValueError, match=r"rl\.solved is the former name of data\.rl\.pass"):
            both()
