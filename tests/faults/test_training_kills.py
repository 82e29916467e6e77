"""kill -9 or SIGTERM at any moment, then the same again: bit-identical weights, no step lost.

Processes, whose program is this file, signal themselves at the moments that are meant, however
fast the machine is.
"""

import json
import os
import sys
from collections.abc import Callable
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from toy_policy import Bench, base, bench, configuration, same_ends, start, tokenizer
from trl import GRPOTrainer

from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step
from sage_cli.training.safeguards import Safeguards

__all__ = ["base", "bench", "start", "tokenizer"]
pytestmark = pytest.mark.slow


def _done(trainer):
    return int(trainer.state.global_step)


MOMENTS: dict[str, tuple[Any, str, Callable[..., int]]] = {
    "computing": (GRPOTrainer, "training_step", lambda self, *_: _done(self) + 1),
    "recorded": (Safeguards, "check", lambda _, record: record["step"]),
    "saving": (GRPOTrainer, "_save_optimizer_and_scheduler", lambda self, *_: _done(self)),
}
"""A method that is about to be called at a moment, and how its arguments tell the step: before its
loss, after its record was written, in the middle of its checkpoint."""


def signal_at(number, step, moment):
    """Have this process send itself a signal at that moment of a step."""
    owner, name, step_of = MOMENTS[moment]
    method = getattr(owner, name)

    def signalling(self, *arguments, **named):
        if step_of(self, *arguments) == step:
            os.kill(os.getpid(), number)
        return method(self, *arguments, **named)

    setattr(owner, name, signalling)


def train(order):
    """In a process of its own, which may send itself a signal: its number, a step, a moment."""
    if "signal" in order:
        signal_at(*order["signal"])
    bench = Bench.at(order["base"], order["folder"])
    bench.run(configuration(**order["sections"]), order["name"])


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
    assert ended(start(__file__, {**order, "name": "whole"})) == 0
    whole, torn = (Run(bench.folder / name) for name in ("whole", "torn"))
    for step, moment, saved in moments:
        code = ended(start(__file__, {**order, "name": "torn", "signal": (number, step, moment)}))
        # 1 is Python's for what was raised; commands have codes of their own
        assert code == (1 if number == SIGTERM else -SIGKILL)
        assert saved_step(torn.checkpoints) == saved
        assert number == SIGKILL or len(torn.metrics.read()) == saved
    assert ended(start(__file__, {**order, "name": "torn"})) == 0
    same_ends(whole, torn)
    records = whole.metrics.read()
    assert [record["step"] for record in records] == list(range(1, rl["steps"] + 1))
    assert sum(record["groups/discarded"] for record in records) > 0


if __name__ == "__main__":
    train(*json.loads(sys.argv[1]))
