"""A run that is still being written is drawn again as its steps come, until it has ended."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from sage_cli.commands.measure.plot import follow
from sage_cli.errors import StoreError
from sage_cli.store.runs.manifest import INTERRUPTED
from sage_cli.store.runs.run import Run, Runs


def train(folder: Path, orders: Connection) -> None:
    """Record what is asked for, and answer when it is written; without an order die at once."""
    run = Run(folder)
    with run.recording({}, kind="rl", parent=None, seed=1, template=""):
        orders.send("begun")
        while (text := orders.recv()) != "end":
            with run.metrics.path.open("a", encoding="utf-8") as file:
                file.write(text)
            orders.send("written")
    orders.send("ended")


@contextmanager
def training(folder: Path) -> Iterator[tuple[Connection, multiprocessing.Process]]:
    """A process that holds the run and writes its records."""
    spawn = multiprocessing.get_context("spawn")
    ours, its = spawn.Pipe()
    process = spawn.Process(target=train, args=(folder, its))
    process.start()
    try:
        assert ours.recv() == "begun"
        yield ours, process
    finally:
        process.kill()
        process.join()


class Pauses:
    """What the training does while the one who follows waits."""

    def __init__(self, orders: Connection, texts: list[str]) -> None:
        self._orders, self._texts = orders, texts

    def __call__(self, _seconds: float) -> None:
        assert self._texts, "it waits for a training that has ended"
        self._orders.send(self._texts.pop(0))
        self._orders.recv()


def values(root: Path, pause: Pauses) -> list[list[float]]:
    """The rewards of each picture."""
    found = []
    for report in follow(root, ["rl-a"], ["reward"], pause):
        (line,) = report.document.data["series"]
        found.append(line["value"].tolist())
        assert (report.folder / "plot.png").is_file()
    return found


@pytest.mark.slow
def test_each_new_step_is_drawn_and_a_half_written_one_is_left_out(tmp_path):
    folder = tmp_path / "rl-a"
    with training(folder) as (orders, _):
        lines = ['{"step": 1, "reward": 0.25}\n', "", '{"step": 2, "rew', 'ard": 0.5}\n', "end"]
        # nothing yet: nothing is drawn; "" writes nothing: nothing is drawn again
        assert values(tmp_path, Pauses(orders, lines)) == [[0.25], [0.25], [0.25, 0.5]]
    assert Run(folder).finished


@pytest.mark.slow
def test_a_training_that_is_killed_is_followed_no_further(tmp_path):
    folder = tmp_path / "rl-a"
    with training(folder) as (orders, process):
        orders.send('{"step": 1, "reward": 0.25}\n')
        orders.recv()

        def kill(_seconds: float) -> None:
            process.kill()
            process.join()

        assert values(tmp_path, kill) == [[0.25]]
    assert Runs(tmp_path).find("rl-a").status == INTERRUPTED


def test_a_run_that_ended_without_a_step_says_so(tmp_path):
    with Run(tmp_path / "rl-a").recording({}, kind="rl", parent=None, seed=1, template=""):
        pass
    with pytest.raises(StoreError, match="rl-a recorded no step yet"):
        list(follow(tmp_path, ["rl-a"], []))
