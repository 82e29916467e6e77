"""Every method, with its own steps a generation batch: killed and resumed, it ends as undisturbed.

`tests/resume` stops and kills each of them after every step.
"""

import pytest
from resumed import CASES, MOVING, MOVING_LORA, NO_TIME, Training, formed, same_ends
from toy_policy import KilledError, killing
from trl import GRPOTrainer

from sage_cli.training import trainer
from sage_cli.training.checkpoints import saved_step

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES)
def test_killed_it_ends_as_undisturbed(bench, case, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", formed())
    # otherwise a slow disk leaves saves out: they may take 5 % of the time
    monkeypatch.setattr(trainer, "SAVING_SHARE", 1.0)
    training = Training(bench, case, 2)
    if training.period == 1:
        training = Training(bench, case, 4 if case in (MOVING, MOVING_LORA) else 3)
    whole, saved = training.run("whole"), max(training.period, 2)
    # the clock saves at the end of a batch, and the kill comes after the next one's first step
    with pytest.raises(KilledError):
        training.run("torn", killing(saved + 1), save_minutes=NO_TIME)
    assert saved_step(bench.folder / "torn/checkpoints") == saved
    same_ends(whole, training.run("torn"))
