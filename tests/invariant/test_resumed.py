"""Every method, with its own steps a generation batch: killed and resumed, it ends as undisturbed.

`tests/resume` stops and kills each of them after every step.
"""

import pytest
from resumed import CASES, MOVING, MOVING_LORA, NO_TIME, Training, formed, same_ends
from toy_policy import KilledError, killing
from trl import GRPOTrainer

from sage_cli.training import interruption
from sage_cli.training.checkpoints import saved_step

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES)
def test_killed_it_ends_as_undisturbed(bench, case, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", formed())
    # otherwise a slow disk leaves saves out: they may take 5 % of the time
    monkeypatch.setattr(interruption, "SAVING_SHARE", 1.0)
    # what has a memory of its own is killed twice: a resumed training has to write it, too
    kills = 2 if case in ("rlpr", "dph-rl", MOVING, MOVING_LORA) else 1
    training = Training(bench, case, 1 + kills)
    if training.period == 1:
        training = Training(bench, case, 2 + kills)
    whole, first = training.run("whole"), max(training.period, 2)
    # the clock saves at the end of a batch, and the kill comes after the next one's first step
    for saved in (first, first + training.period)[:kills]:
        with pytest.raises(KilledError):
            training.run("torn", killing(saved + 1), save_minutes=NO_TIME)
        assert saved_step(bench.folder / "torn/checkpoints") == saved
    same_ends(whole, training.run("torn"))
