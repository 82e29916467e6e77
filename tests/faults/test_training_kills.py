"""kill -9 or SIGTERM at any moment, then the same again: bit-identical weights, no step lost.

Processes signal themselves at the moments that are meant, however fast the machine is.
"""

from signal import SIGKILL, SIGTERM

import pytest
from resumed import same_ends
from toy_policy import base, bench, start, tokenizer

from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step

__all__ = ["base", "bench", "start", "tokenizer"]
pytestmark = pytest.mark.slow


def ended(process):
    """The exit code of a process that is waited for, and dead."""
    process.communicate(timeout=300)
    return process.returncode


@pytest.mark.parametrize(
    ("number", "guide", "rl", "moments"),
    [
        (
            SIGKILL,
            "token",
            {"steps": 14, "save_every": 3},
            [(4, "recorded", 3), (9, "saving", 6), (11, "computing", 9)],
        ),
        # by steps nothing is saved before the end, as in a default run of 40; a generation's
        # rollouts are for two steps, after which it is saved
        (
            SIGTERM,
            "random",
            {"steps": 12, "save_every": 50, "iterations": 2},
            [(1, "recorded", 2), (4, "computing", 4), (9, "computing", 10)],
        ),
    ],
    ids=["killed", "terminated"],
)
def test_trainings_end_as_undisturbed_ones(start, bench, number, guide, rl, moments):
    sections = {
        "guide": {"name": guide},
        "rl": {"dynamic_sampling": True, **rl},
        "tracking": {"rollouts": "all"},
    }
    order = {"base": str(bench.base), "folder": str(bench.folder), "sections": sections}
    assert ended(start({**order, "name": "whole"})) == 0
    whole, torn = (Run(bench.folder / name) for name in ("whole", "torn"))
    for step, moment, saved in moments:
        code = ended(start({**order, "name": "torn", "signal": (number, step, moment)}))
        # 1 is Python's for what was raised; commands have codes of their own
        assert code == (1 if number == SIGTERM else -SIGKILL)
        assert saved_step(torn.checkpoints) == saved
        assert number == SIGKILL or len(torn.metrics.read()) == saved
    assert ended(start({**order, "name": "torn"})) == 0
    same_ends(whole, torn)
    records = whole.metrics.read()
    assert [record["step"] for record in records] == list(range(1, rl["steps"] + 1))
    assert sum(record["groups/discarded"] for record in records) > 0
