import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.policies.names import shown_labels, split_label
from sage_cli.policies.policy import Policy
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


def test_labels_stand_for_what_policies_are_called(tmp_path):
    runs = Runs(tmp_path)
    made = [runs.at("rl", name, digit * 8) for name, digit in (("a", "1"), ("b", "2"))]
    for run in made:
        with run.recording({}, kind="rl"):
            pass
    policies = [Policy.of_run(run) for run in made]
    shown = shown_labels({"rl-a": "first"}, policies, runs)
    assert shown == {made[0].id: "first", made[1].id: made[1].id}
    with pytest.raises(ConfigurationError, match="two models would be called 'x'"):
        shown_labels({"rl-a": "x", "rl-b": "x"}, policies, runs)
