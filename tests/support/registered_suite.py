"""A small suite over initial policies, as a file, and its plan."""

from __future__ import annotations

from pathlib import Path

from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import PlannedSuite, planned

TEXT = """\
title: Branch at equal pass@1
settings: {data.arithmetic.held_out: 40, rl.steps: 2}
methods:
  base: base
  anchor: grpo/none/reverse
  branch: grpo/branch/reverse
initial_policies: [41, 42, 43]
seeds: 2
measured: exact
temperatures: [1.0, 1.2]
k: 1,256
trades:
  - {name: first, method: branch, against: anchor, primary: true}
stop: {first: 3, look_every: 1, most: 6, within: 0.01}
"""


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    """Return the suite's file, with some of its text replaced."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def plan(folder: Path, *changes: tuple[str, str], sets: tuple[str, ...] = ()) -> PlannedSuite:
    """Return the plan of that suite."""
    overrides = Overrides(("tiny",), sets, None, {"run": {"root": folder / "runs"}})
    return planned(str(written(folder, *changes)), overrides)


def begin_a_run(found: PlannedSuite, *, initial: bool = False) -> str:
    """Have the first training of a plan begin; return its id."""
    run = next(one.policy.run for one in found.parts[0].replicates if one.is_initial == initial)
    assert run is not None
    with run.recording({}, kind="rl"):
        pass
    return run.id
