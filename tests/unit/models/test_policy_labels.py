import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.models.policy import chosen_policies, split_label
from sage_cli.store.run import Runs


def test_a_label_follows_the_last_equals_sign(tmp_path):
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


def test_folders_of_one_name_are_told_apart_by_labels(tmp_path):
    names = []
    for parent in ("one", "other"):
        (folder := tmp_path / parent / "model").mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"")
        names.append(str(folder))
    runs = Runs(tmp_path / "runs")
    with pytest.raises(ConfigurationError, match="would have the same name"):
        chosen_policies(names, runs)
    found = chosen_policies(names, runs, labels={names[1]: "other"})
    assert [one.label for one in found] == ["model", "other"]
    assert [one.word for one in found] == names
