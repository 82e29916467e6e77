"""What state.json says of a sweep that goes on where an earlier driver stopped."""

import json

from shell_task import shell_task

from sage_cli.progress import Silent
from sage_cli.sweep.folder import SweepFolder
from sage_cli.sweep.proposal import State
from sage_cli.sweep.sweep_progress import SweepProgress


def test_only_what_this_driver_wanted_is_cancelled(tmp_path):
    progress = SweepProgress(Silent(), SweepFolder(tmp_path), {"objectives": ["pass@1"]}, 8)
    progress.count_earlier([State.DONE, State.PRUNED, State.DONE, State.RUNNING], 2)
    progress.expect(shell_task(tmp_path, "one"))
    progress.cancelled(())
    # of 8 trainings 3 x 2 had ended before and one was wanted: one more was never asked for
    cells = json.loads((tmp_path / "state.json").read_text())["cells"]
    assert cells == {"done": 4, "failed": 0, "pruned": 2, "cancelled": 1, "left": 1}
