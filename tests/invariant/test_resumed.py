"""Every method, with its own steps a generation batch: stopped or killed, it ends as undisturbed.

`tests/resume` stops each of them after every step.
"""

import pytest
from resumed import CASES, NO_TIME, Training, formed, same_ends, stopping
from toy_policy import KilledError, killing
from trl import GRPOTrainer

from sage_cli.errors import Interrupted
from sage_cli.training.checkpoints import saved_step

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_killed_it_ends_as_undisturbed(bench, case, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", formed())
    training = Training(bench, case, 4)
    period, checkpoints = training.period, bench.folder / "torn/checkpoints"
    whole = training.run("whole")
    # asked to stop in the first step of the second batch
    with pytest.raises(Interrupted):
        training.run("torn", stopping(period))
    assert saved_step(checkpoints) == 2 * period
    # the clock saves at the end of the third, and the kill comes after it
    with pytest.raises(KilledError):
        training.run("torn", killing(3 * period + 1), save_minutes=NO_TIME)
    assert saved_step(checkpoints) == 3 * period
    same_ends(whole, training.run("torn"))
