from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.trials.suites.overrides import Overrides, trials_of
from sage_cli.trials.suites.read import read_suite
from sage_cli.trials.task import Replicate

PAPER = "qwen2.5-math-7b"


def replicates(
    name: str, *presets: str, sets: tuple[str, ...] = (), seeds: int | None = None
) -> list[Replicate]:
    trials = trials_of(read_suite(name), Overrides(presets, sets, seeds))
    return [one for trial in trials for one in trial.replicates]


def typed(one: Replicate) -> object:
    """The configuration that `sage rl` resolves from the one's options, read word by word."""
    words, flags, presets, sets = list(one.words.all), {}, [], []
    sections = {"--algo": ("rl", "algo"), "--guide": ("guide", "name"), "--kl": ("anchor", "kl")}
    while words:
        option, value = words.pop(0), words.pop(0)
        if option == "--preset":
            presets.append(value)
        elif option == "--set":
            sets.append(value)
        else:
            section, key = sections[option]
            flags[section] = {key: value}
    return load(presets, flags, sets).config


def test_a_method_that_cannot_be_configured_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nmethods: {base: base, wide: grpo/brnch}\n")
    with pytest.raises(ConfigurationError) as refused:
        replicates(str(file), "tiny")
    assert refused.value.cause.startswith("suite mine, method wide: ")
    assert "did you mean branch?" in refused.value.cause


def test_the_papers_protocol_holds_for_its_model() -> None:
    base, grpo, *_ = replicates("table2", PAPER)
    assert grpo.config.evaluation.benchmark == "aime"
    assert (grpo.config.evaluation.samples, grpo.config.evaluation.k) == (16, "1,16")
    assert grpo.config.evaluation.seeds == 1
    assert grpo.config.sampling.temperature == 0.3
    assert base.is_initial
    assert base.config.evaluation == grpo.config.evaluation


def test_a_miniature_keeps_its_own_problems_and_takes_the_ks_as_far_as_it_has_samples() -> None:
    config = replicates("table1", "tiny", sets=("evaluation.samples=8",))[1].config
    assert config.evaluation.benchmark == "arithmetic"
    assert config.sampling.temperature == 1.0
    assert (config.evaluation.samples, config.evaluation.k) == (8, "1,8")


@pytest.mark.parametrize("preset", ["tiny", PAPER])
def test_samples_may_exceed_the_suite_s_largest_k(preset: str) -> None:
    config = replicates("table1", preset, sets=("evaluation.samples=1024",))[1].config
    assert (config.evaluation.samples, config.evaluation.k) == (1024, "1,256")


def test_what_is_typed_wins_over_the_protocol() -> None:
    config = replicates("table1", PAPER, sets=("evaluation.samples=32", "sampling.temperature=1"))[
        1
    ].config
    assert (config.evaluation.samples, config.evaluation.k) == (32, "1,32")
    assert config.sampling.temperature == 1
    assert replicates("table1", PAPER, sets=("evaluation.k=1,2",))[1].config.evaluation.k == "1,2"


def test_the_papers_models_are_trained_once_and_a_miniature_three_times() -> None:
    assert [one.seed for one in replicates("table4", PAPER)] == [0, 0, 0]
    small = replicates("table4", "tiny")
    assert [(one.title, one.seed) for one in small] == [
        ("base", 0), ("grpo, seed 1", 0), ("grpo, seed 2", 1), ("grpo, seed 3", 2),
        ("grpo-branch, seed 1", 0), ("grpo-branch, seed 2", 1), ("grpo-branch, seed 3", 2),
    ]  # fmt: skip
    first = small[1].config.rl.seed
    assert [one.config.rl.seed for one in small[1:4]] == [first, first + 1, first + 2]
    assert len({one.policy.label for one in small}) == 7
    assert len(replicates("table4", PAPER, seeds=2)) == 5


def test_another_model_takes_the_place_of_the_papers_main_one_alone() -> None:
    assert "DeepSeek-R1" in replicates("table4", PAPER)[0].initial.path
    assert {one.initial.path for one in replicates("figure6", PAPER)} == {
        "Qwen/Qwen2.5-Math-1.5B-Instruct", "Qwen/Qwen2.5-3B-Instruct"
    }  # fmt: skip
    assert {one.words.presets for one in replicates("figure6", "tiny")} == {("tiny",)}


@pytest.mark.parametrize("preset", ["tiny", PAPER])
@pytest.mark.parametrize("suite", ["table1", "table2", "table3", "figure2", "figure4", "figure6"])
def test_the_options_are_what_a_person_would_type(suite: str, preset: str) -> None:
    for one in replicates(suite, preset):
        if not one.is_initial:
            assert typed(one) == one.config, shlex.join(one.words.all)


def test_a_guide_takes_the_presets_values_for_it() -> None:
    *_, branch = replicates("table4", "tiny", seeds=1)
    assert (branch.config.guide.name, branch.config.guide.tau) == ("branch", 0.465)  # type: ignore[union-attr]
