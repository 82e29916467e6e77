"""Renamed values: the former spelling is read for ever, and it is what is hashed."""

import pytest

from sage_cli.config.load import load
from sage_cli.settings.sampling import RolloutSection, SamplingSection
from sage_cli.settings.spelling import FORMER, respelled
from sage_cli.settings.training import AnchorSection

RENAMED = [
    (setting, former, today)
    for setting, values in FORMER.items()
    for former, today in values.items()
]
SECTIONS = {"anchor": AnchorSection, "rollout": RolloutSection, "sampling": SamplingSection}


@pytest.mark.parametrize(("setting", "former", "today"), RENAMED)
def test_both_spellings_are_one_value_with_one_hash(setting, former, today):
    section, _, name = setting.partition(".")
    read, written = (SECTIONS[section](**{name: value}) for value in (former, today))
    assert getattr(read, name) == getattr(written, name) == today
    assert read.determinants() == written.determinants()
    # `sampling.backend` changes no result, so that no hash has it
    hashed = {"sampling": None}.get(section, former)
    assert written.determinants().get(name) == hashed


@pytest.mark.parametrize(("setting", "former", "today"), RENAMED)
def test_a_former_spelling_can_be_typed(setting, former, today):
    section, _, name = setting.partition(".")
    config = load(["qwen2.5-math-7b"], sets=[f"{setting}={former}"]).config
    assert getattr(getattr(config, section), name) == today


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
    assert respelled(stored) == {
        "anchor": {"reference": "pre-sft", "beta": 0.1},
        "rollout": {"backend": "transformers"},
        "sampling": {"backend": "builtin"},
        "run": "of another form",
    }
    assert stored["anchor"]["reference"] == "base"
