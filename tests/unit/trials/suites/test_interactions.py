"""Interactions of made-up chances, by hand, and their section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.exact.chances import Chances
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.overrides import Overrides, trials_of
from sage_cli.trials.suites.read import read_suite
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.suites.sections.interactions import interactions_section

GAINS = {
    "grpo": ["grpo-branch", "grpo-kl"],
    "dapo": ["dapo-branch", "dapo-kl"],
    "psr": ["psr-branch", "psr-kl"],
}
SUITE: dict[str, Any] = {
    "name": "mine", "title": "Mine", "seeds": 2, "measured": "exact", "k": "1,2",
    "methods": {
        "grpo-kl": "grpo", "grpo-branch": "grpo/branch", "dapo-kl": "dapo",
        "dapo-branch": "dapo/branch", "psr-kl": "psr", "psr-branch": "psr/branch",
    },
    "interactions": [{"name": "branch", "gains": GAINS}],
}  # fmt: skip
AT_1 = {
    "grpo-kl": 0.2, "grpo-branch": 0.3, "dapo-kl": 0.2, "dapo-branch": 0.5,
    "psr-kl": 0.1, "psr-branch": 0.1, "base": 0.15,
}  # fmt: skip
"""Mean pass@1 of two problems, .1 below and above it."""


def result(starts: int = 2, without: str = "", **changed: Any) -> PartResult:
    declared = {**SUITE, **changed, "initial_policies": [*range(51, 51 + starts)]}
    suite = Suite.model_validate(declared)
    found = trials_of(suite, Overrides(("tiny",)))
    read = {}
    for trial in found:
        every = []
        for one in trial.replicates:
            # a seed adds the same to both sides, an initial policy's problems are its own
            mean = AT_1[trial.label] + 0.05 * one.seed
            p_TPW = np.array([[[mean - 0.1], [mean + 0.1]]])
            ids = (f"{one.start}-a", f"{one.start}-b")
            chances = Chances(ids, ("S",), frozenset(), (1.0,), p_TPW)
            every.append(ReadReplicate(one, {"arithmetic": chances}, {}))
        read[trial.label] = [] if trial.label == without else every
    return PartResult(suite, [MethodResult(trial, []) for trial in found], {}, read)


def values(part: PartResult) -> dict[tuple[int, str], float]:
    data = interactions_section(part).data["interactions"]
    return {(row["k"], row["of"]): row["these policies"] for row in data}


def test_gains_and_interactions_by_hand():
    found = values(result())
    at_1 = {name: value for (k, name), value in found.items() if k == 1}
    assert at_1 == pytest.approx(
        {
            "grpo": 0.1, "dapo": 0.3, "psr": 0.0, "mean of all": 0.4 / 3,
            "dapo less grpo": 0.2, "psr less grpo": -0.1, "mean of the others less grpo": 0.05,
        }
    )  # fmt: skip
    # pass@2 is 2p - p^2 of p = .1, .3 (and .15, .35): means .35 and .4275 of GRPO's KL; of its
    # branch, p = .2, .4 (and .25, .45), .5 and .5675: a gain of .145
    assert found[2, "grpo"] == pytest.approx(0.145)


def test_a_method_that_is_not_there_yet_is_left_out_and_named():
    document = interactions_section(result(without="dapo-branch"))
    assert "branch: not there yet: dapo" in document.notes
    names = {row["of"] for row in document.data["interactions"]}
    assert "psr less grpo" in names
    assert not any("dapo" in name for name in names)
    alone = interactions_section(result(without="grpo-kl"))
    assert alone.data["interactions"] == []


def test_a_replicate_that_one_method_lacks_is_left_out_of_all():
    part = result()
    part.read["psr-kl"].pop()  # type: ignore[attr-defined]
    (note, *_) = interactions_section(part).notes
    assert note.startswith("2 initial policies, 3 trainings of each method, 2 problems")


def test_with_one_initial_policy_nothing_is_said_of_others():
    document = interactions_section(result(starts=1))
    assert "one initial policy says nothing of others" in document.notes[1]
    (first, *_) = document.data["interactions"]
    assert first["these policies"] == pytest.approx(0.1)
    assert [first[key] for key in first if key.startswith("other policies")] == [None]


def test_p_is_adjusted_over_the_interactions_and_nothing_else():
    rows = interactions_section(result()).data["interactions"]
    adjusted = [row["of"] for row in rows if row["p (Holm)"] is not None]
    assert adjusted == ["dapo less grpo", "psr less grpo"] * 2


def test_it_is_drawn(tmp_path: Path):
    (figure,) = interactions_section(result(starts=3)).figures
    figure.draw(tmp_path / figure.stem)
    assert (tmp_path / "interactions-branch-arithmetic.svg").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"measured": False}, "interactions are compared by exact chances"),
        (
            {"interactions": [{"name": "b", "gains": {**GAINS, "psr": ["psr-kl", "psr-k"]}}]},
            "the interaction b names the method 'psr-k'",
        ),
        ({"interactions": [{"name": "b", "gains": {"grpo": GAINS["grpo"]}}]}, "at least 2"),
        ({"interactions": [{"name": "b", "gains": GAINS}] * 2}, "two interactions have the same"),
    ],
)
def test_what_cannot_be_estimated_is_an_error(tmp_path: Path, changed: Any, said: str):
    file = tmp_path / "mine.yaml"
    declared = {key: value for key, value in {**SUITE, **changed}.items() if key != "name"}
    file.write_text(yaml.safe_dump(declared))
    with pytest.raises(ConfigurationError, match=said):
        read_suite(str(file))


def test_with_some_methods_alone_an_interaction_of_others_is_left_out():
    suite = Suite.model_validate(SUITE)
    assert suite.only(["grpo-kl", "grpo-branch"]).interactions == ()
    assert len(suite.only(list(SUITE["methods"])).interactions) == 1


def test_the_initial_policy_stands_beside_every_seed() -> None:
    """Seeds of grpo less the initial policy: .2 - .15 and .25 - .15, .075 in the mean."""
    methods = {"base": "base", "grpo-kl": "grpo", "dapo-kl": "dapo"}
    gains = {"grpo": ["grpo-kl", "base"], "dapo": ["dapo-kl", "base"]}
    part = result(methods=methods, interactions=[{"name": "over base", "gains": gains}])
    (found,) = {
        row["of"]: row["these policies"]
        for row in interactions_section(part).data["interactions"]
        if row["k"] == 1 and row["of"] == "grpo"
    }.values()
    assert found == pytest.approx(0.075)
