"""Which model a name means, and what two names may not share."""

from pathlib import Path

import pytest

from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.measurements import chosen_policies
from sage_cli.policies.policy import base_policy, named_policies, named_policy
from sage_cli.progress import Silent
from sage_cli.store.run import Runs


@pytest.fixture
def runs(tmp_path):
    """A finished run with checkpoints at 2 and 10, and one that was interrupted."""
    runs = Runs(tmp_path / "runs")
    done, broken = runs.at("rl", "dapo-branch", "1" * 8), runs.at("rl", "grpo-kl", "2" * 8)
    with done.recording({}, kind="rl", parent=None):
        for step in (10, 2):
            (done.checkpoints / f"checkpoint-{step}").mkdir(parents=True)
        model_folder(done.model)
    with pytest.raises(KeyboardInterrupt), broken.recording({}, kind="rl"):
        raise KeyboardInterrupt
    return runs


def model_folder(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


def config(runs, **changes):
    return changed(load().config, {"run.root": str(runs.root), **changes})


def test_a_run_by_id_part_or_folder_is_its_model(runs):
    run = runs.find("rl-dapo")
    for name in ("rl-dapo", run.id, str(run.folder), str(run.model)):
        policy = named_policy(name, runs)
        assert (policy.run, policy.path, policy.label) == (run, str(run.model), run.id)


def test_checkpoints_by_step(runs):
    policy = named_policy("rl-dapo@10", runs)
    assert policy.path.endswith("checkpoints/checkpoint-10")
    assert policy.label == f"{policy.run.id}@10"
    every = named_policies("rl-dapo@all", runs)
    assert [one.checkpoint for one in every] == [2, 10, None]  # by number, then the end
    for step in ("3", "last"):
        with pytest.raises(StoreError, match=f"no checkpoint at step '{step}'; it keeps 2, 10"):
            named_policy(f"rl-dapo@{step}", runs)


def test_an_unfinished_run_has_no_model_yet(runs):
    with pytest.raises(StoreError, match="is interrupted, not finished"):
        named_policy("rl-grpo", runs)
    assert named_policies("rl-grpo@all", runs) == []


def test_somebody_elses_model_and_a_folder_that_is_none(runs, tmp_path):
    assert named_policy(model_folder(tmp_path / "theirs"), runs).label == "theirs"
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    assert named_policy(str(tmp_path / "adapter"), runs).run is None
    (tmp_path / "nothing").mkdir()
    with pytest.raises(StoreError, match="holds neither a run nor a model"):
        named_policy(str(tmp_path / "nothing"), runs)


def test_two_models_never_share_a_curve(runs, tmp_path):
    one, other = (model_folder(tmp_path / name / "final") for name in ("one", "other"))
    with pytest.raises(ConfigurationError, match="would stand under the same name"):
        chosen_policies(config(runs), [one, other], Silent())
    (same,) = chosen_policies(config(runs), [one, one], Silent())
    assert same.path == one


def test_without_names_the_latest_run_is_measured(runs):
    (policy,) = chosen_policies(config(runs), [], Silent())
    assert policy.run == runs.find("rl-dapo")


def test_a_model_as_it_is_keeps_its_revision_and_random_weights_are_no_base(runs):
    theirs = {
        "model.kind": "pretrained", "model.path": "a/b", "model.revision": "v1",
        "sft.enabled": False,
    }  # fmt: skip
    other = {"run.root": str(runs.root), **theirs}
    as_it_is = load(sets=[f"{key}={value}" for key, value in other.items()]).config
    policy = base_policy(as_it_is, Silent())
    assert (policy.path, policy.label, policy.run) == ("a/b", "b", None)
    assert policy.loading == {"revision": "v1", "trust_remote_code": False}
    moved = base_policy(changed(as_it_is, {"model.revision": "v2"}), Silent())
    assert policy.fingerprint != moved.fingerprint
    with pytest.raises(ConfigurationError, match="random weights are no base"):
        base_policy(config(runs, **{"sft.enabled": False}), Silent())
