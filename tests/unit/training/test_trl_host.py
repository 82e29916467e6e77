"""What is touched of TRL: a changed signature refuses, a changed body warns, both by name."""

import warnings

import pytest
import trl
from trl import GRPOTrainer
from trl.trainer import utils

from sage_cli.errors import TrainingError
from sage_cli.training import trl_host


def test_the_release_that_is_installed_is_the_one_that_was_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trl_host.check_release()
    assert trl.__version__ == trl_host.READ
    assert len(trl_host.BODIES) == len(trl_host.surface())


@pytest.mark.parametrize("name", trl_host.OVERRIDDEN)
def test_a_method_that_takes_something_else_is_refused(monkeypatch, name):
    monkeypatch.setattr(GRPOTrainer, name, lambda self, other: None)
    with pytest.raises(TrainingError, match=rf"has changed GRPOTrainer\.{name} \(self, other; "):
        trl_host.check_release()


def test_a_function_that_is_gone_is_refused(monkeypatch):
    """As in releases before 1.15: said before anything is imported from there."""
    monkeypatch.delattr(utils, "add_fused_lm_head")
    with pytest.raises(TrainingError, match=r"has changed add_fused_lm_head \(gone; expected"):
        trl_host.check_release()


def test_a_body_that_changed_warns(monkeypatch):
    def log(self, logs, start_time=None):
        """Another body with the same parameters."""

    monkeypatch.setattr(GRPOTrainer, "log", log)
    with pytest.warns(UserWarning, match=r"computes GRPOTrainer\.log otherwise than TRL"):
        trl_host.check_release()
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trl_host.check_release()


def test_a_trainer_without_what_is_read_of_it_is_refused():
    with pytest.raises(TrainingError, match="has no eos_token_ids, temperature"):
        trl_host.require_attributes(object(), ["eos_token_ids", "temperature"])
