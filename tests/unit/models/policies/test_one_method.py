"""Runs of one side of a comparison: seeds of one method, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shown_runs import stored_run

from sage_cli.errors import ConfigurationError
from sage_cli.models.policies.one_method import method_settings, refuse_several_methods, unchecked
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs

BRANCH = {"anchor": {"kl": "reverse"}, "guide": {"name": "branch"}}


def trained(root: Path, identity: str, parent: Run, **settings: Any) -> Policy:
    """A run of RL with those settings; `rl.seed` is its own."""
    told = {"rl": {"algo": "dapo", "seed": int(identity, 16)}, **settings}
    run = stored_run(root, "dapo", identity, parent=parent.id, settings=told)
    return Policy.of_run(run)


def start(root: Path, identity: str, **sft: Any) -> Run:
    settings = {
        "sft": {"seed": int(identity, 16), **sft},
        "data": {"arithmetic": {"seed": int(identity, 16)}},
    }
    return stored_run(root, "arithmetic", identity, kind="sft", settings=settings)


def test_seeds_of_the_training_and_of_the_initial_policy_may_differ(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    seeds = {"data": {"arithmetic": {"seed": 7}}}
    one = trained(tmp_path, "1", start(tmp_path, "a"), **BRANCH)
    # another width of the grading's pool changes no result
    other = trained(tmp_path, "2", start(tmp_path, "b"), **BRANCH, **seeds, grading={"workers": 2})
    assert method_settings(one, runs)["guide.name"] == "branch"
    refuse_several_methods([one, other], [one], runs)


def test_other_settings_are_named_with_their_values_and_the_way_to_compare(tmp_path: Path) -> None:
    parent = start(tmp_path, "a")
    one = trained(tmp_path, "1", parent, **BRANCH)
    other = trained(tmp_path, "2", parent, anchor={"kl": "none"})
    with pytest.raises(ConfigurationError) as error:
        refuse_several_methods([one, other], [Policy.of_run(parent)], Runs(tmp_path))
    # the guide's own settings go without saying
    assert error.value.cause.endswith(
        "differ in anchor.kl (reverse and none), guide.name (branch and none)"
    )
    assert error.value.next_step == (
        "compare them one by one: "
        f"sage compare {one.word} {parent.id}; sage compare {other.word} {parent.id}"
    )


def test_initial_policies_are_seeds_of_one_too(tmp_path: Path) -> None:
    one = trained(tmp_path, "1", start(tmp_path, "a"))
    other = trained(tmp_path, "2", start(tmp_path, "b", steps=10))
    with pytest.raises(ConfigurationError, match=r"initial policy: sft.steps \(875 and 10\)"):
        refuse_several_methods([one, other], [], Runs(tmp_path))


def test_a_checkpoint_is_of_its_step(tmp_path: Path) -> None:
    parent = start(tmp_path, "a")
    one, other = (trained(tmp_path, identity, parent) for identity in "12")
    at = [Policy(one.path, one.run, checkpoint=step) for step in (10, 20)]
    with pytest.raises(ConfigurationError, match=r"checkpoint \(10 and 20\)"):
        refuse_several_methods(
            [at[0], Policy(other.path, other.run, checkpoint=20)], [], Runs(tmp_path)
        )


def test_a_model_without_settings_is_passed_over_and_named(tmp_path: Path) -> None:
    run = trained(tmp_path, "1", start(tmp_path, "a"))
    sides = [run, Policy("org/model")], [Policy("org/other")]
    refuse_several_methods(*sides, Runs(tmp_path))
    assert [unchecked(side, Runs(tmp_path)) for side in sides] == [["model"], []]
