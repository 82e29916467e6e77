"""A sweep that is killed wherever it can be: nothing lost, doubled or orphaned."""

import os
import random
import sys
import time
from collections import Counter
from itertools import cycle

import pytest
from killed_sweep import ROLES, SIGNALS, KilledSweep, results

from sage_cli.trials.executors.process_guard import LINUX

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not LINUX, reason="elsewhere /proc does not tell what runs"),
]
KILLS = int(os.environ.get("KILLS", "12"))
"""One for each role and signal, by default."""
ALWAYS = ["--set", "sweep.retries=1000", "--workers", "2"]
MORE = 4
"""Trials that are added to the grid when all are done before the last kill."""


def words(trials):
    """A sweep over a grid of so many trials."""
    taus = "|".join(f"{0.1 + 0.01 * number:.2f}" for number in range(trials))
    space = ["--study", "killed", "--space", f"tau={taus}", "--guide", "branch"]
    return [*ALWAYS, *space, "--set", "sft.steps=3"]


def test_every_kill_is_survived(tmp_path, warm):
    """The results equal those of a sweep that nobody disturbed."""
    trials, chance = 2 * MORE, random.Random(7)
    sweep = KilledSweep(tmp_path / "killed", words(trials))
    pairs = [(role, number) for role in ROLES for number in SIGNALS]
    chance.shuffle(pairs)
    waiting = cycle(pairs)
    while sum(sweep.counts.values()) < KILLS:
        time.sleep(chance.uniform(0, 2))
        sweep.kill(*next(waiting), chance)
        if sweep.driver.poll() is not None:
            assert sweep.driver.returncode == 0, sweep.said[-3000:]
            trials += MORE
            sweep.words = words(trials)
            sweep.driver = sweep.start()
    assert sweep.driver.wait(900) == 0, sweep.said[-3000:]
    sweep.require_no_orphans()
    calm = KilledSweep(tmp_path / "calm", words(trials), warm.driver)
    assert calm.driver.wait(900) == 0, calm.said[-3000:]
    killed, undisturbed = (list(results(one.folder)) for one in (sweep, calm))
    assert killed == undisturbed
    assert Counter(name for name, _ in killed)["trial"] == trials
    kills = {f"{role}, {name}": count for (role, name), count in sorted(sweep.counts.items())}
    sys.stdout.write(f"\n{sum(kills.values())} kills, {trials} trials: {kills}\n")
