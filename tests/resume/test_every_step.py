"""Every method with its own steps a generation batch, stopped or killed after every step of two."""

import os
import signal

import pytest
from resumed import CASES, NO_TIME, Training, formed, same_ends
from toy_policy import KilledError, killing
from trl import GRPOTrainer

from sage_cli.errors import Interrupted
from sage_cli.training import interruption
from sage_cli.training.checkpoints import saved_step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def stopping(step):
    """Hears steps, and asks to stop in the one after `step`."""

    def on_step(record):
        if record["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_step


@pytest.mark.parametrize("case", CASES)
def test_it_ends_as_undisturbed(bench, case, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", formed())
    # otherwise a slow disk leaves saves out: they may take 5 % of the time
    monkeypatch.setattr(interruption, "SAVING_SHARE", 1.0)
    training = Training(bench, case, 2)
    if training.period == 1:
        training = Training(bench, case, 4)
    whole, period = training.run("whole"), training.period
    for step in range(1, training.steps):
        with pytest.raises(Interrupted):
            training.run(f"stopped-{step}", stopping(step))
        boundary = -(-(step + 1) // period) * period
        assert saved_step(bench.folder / f"stopped-{step}/checkpoints") == boundary
        same_ends(whole, training.run(f"stopped-{step}"))
        with pytest.raises(KilledError):
            training.run(f"killed-{step}", killing(step), save_minutes=NO_TIME)
        boundary = (step - 1) // period * period  # a step is written down before it is saved
        assert saved_step(bench.folder / f"killed-{step}/checkpoints") == boundary
        same_ends(whole, training.run(f"killed-{step}"))
