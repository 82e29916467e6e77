"""Which model a name means, and what two names may not share."""

import pytest

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.policy import chosen_policies, named_policies, named_policy, split_label
from sage_cli.store.run import SEAL, Runs


@pytest.fixture
def runs(tmp_path):
    """A finished run with checkpoints at 2 and 10, and one that was interrupted."""
    runs = Runs(tmp_path / "runs")
    done, broken = runs.at("rl", "dapo-branch", "1" * 8), runs.at("rl", "grpo-kl", "2" * 8)
    with done.recording({}, kind="rl", parent=None):
        for step in (10, 2):
            sealed_checkpoint(done, step)
        model_folder(done.model)
    with pytest.raises(KeyboardInterrupt), broken.recording({}, kind="rl"):
        raise KeyboardInterrupt
    return runs


def sealed_checkpoint(run, step):
    place = run.checkpoints / f"checkpoint-{step}"
    place.mkdir(parents=True)
    (place / SEAL).write_text("{}")


def model_folder(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


def test_a_run_by_id_part_or_folder_or_a_step_is_its_model(runs):
    run = runs.find("rl-dapo")
    for name in ("rl-dapo", run.id, str(run.folder), str(run.model)):
        policy = named_policy(name, runs)
        assert (policy.run, policy.path, policy.label) == (run, str(run.model), run.id)
    (policy,) = chosen_policies([], runs)
    assert policy.run == runs.find("rl-dapo")
    policy = named_policy("rl-dapo@10", runs)
    assert policy.path.endswith("checkpoints/checkpoint-10")
    assert policy.label == f"{policy.run.id}@10"
    every = named_policies("rl-dapo@all", runs)
    assert [one.checkpoint for one in every] == [2, 10, None]  # by number, then the end
    for step in ("3", "last", "²"):
        with pytest.raises(StoreError, match=f"no checkpoint at step '{step}'; it keeps 2, 10"):
            named_policy(f"rl-dapo@{step}", runs)


def test_neither_an_unfinished_run_nor_an_unsealed_checkpoint_is_a_model(runs):
    (runs.find("rl-dapo").checkpoints / "checkpoint-20").mkdir()
    assert [one.checkpoint for one in named_policies("rl-dapo@all", runs)] == [2, 10, None]
    with pytest.raises(StoreError, match="no checkpoint at step '20'; it keeps 2, 10"):
        named_policy("rl-dapo@20", runs)
    with pytest.raises(StoreError, match="is interrupted, not finished"):
        named_policy("rl-grpo", runs)
    assert named_policies("rl-grpo@all", runs) == []


def test_somebody_elses_model_and_a_folder_that_is_none(runs, tmp_path):
    assert named_policy(model_folder(tmp_path / "theirs"), runs).label == "theirs"
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    assert named_policy(str(tmp_path / "adapter"), runs).run is None
    (tmp_path / "nothing").mkdir()
    with pytest.raises(StoreError, match="contains neither a run nor a model"):
        named_policy(str(tmp_path / "nothing"), runs)


def test_two_models_never_share_a_curve(runs, tmp_path):
    one, other = (model_folder(tmp_path / name / "final") for name in ("one", "other"))
    with pytest.raises(ConfigurationError, match="would have the same name in tables"):
        chosen_policies([one, other], runs)
    labelled = chosen_policies([one, other], runs, labels={other: "other"})
    assert [policy.label for policy in labelled] == ["final", "other"]
    (same,) = chosen_policies([one, one], runs)
    assert same.path == one


def test_labels_follow_the_last_equals_sign_and_an_empty_folder_is_named(tmp_path):
    with pytest.raises(StoreError, match=f"{tmp_path}/nothing contains no finished run") as refusal:
        chosen_policies([], Runs(tmp_path / "nothing"))
    assert "`sage rl` trains a run" in refusal.value.next_step
    assert not (tmp_path / "nothing").exists()
    assert split_label("rl-dapo") == ("rl-dapo", None)
    assert split_label("rl-dapo=DAPO, no KL") == ("rl-dapo", "DAPO, no KL")
    assert split_label("rl@40=early") == ("rl@40", "early")
    (tmp_path / "tau=1").mkdir()
    assert split_label(str(tmp_path / "tau=1")) == (str(tmp_path / "tau=1"), None)


@pytest.mark.parametrize("typed", ["rl=", "=DAPO", "rl@all=DAPO"])
def test_a_label_without_a_model_or_for_several(typed):
    with pytest.raises(ConfigurationError):
        split_label(typed)


def test_policies_are_called_by_their_labels_and_typed_by_their_names(tmp_path):
    runs = Runs(tmp_path)
    made = [runs.at("rl", name, digit * 8) for name, digit in (("a", "1"), ("b", "2"))]
    for run in made:
        with run.recording({}, kind="rl"):
            pass
    first, second = chosen_policies(["rl-a", "rl-b"], runs, labels={"rl-a": "DAPO, seed 1"})
    assert (first.label, first.word) == ("DAPO, seed 1", made[0].id)
    assert (second.label, second.word) == (made[1].id, made[1].id)
    with pytest.raises(ConfigurationError, match="would have the same name"):
        chosen_policies(["rl-a", "rl-b"], runs, labels={"rl-a": "x", "rl-b": "x"})
