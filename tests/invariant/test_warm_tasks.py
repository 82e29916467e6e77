"""Tasks that are forked from a warm process end as those that start cold, to the last bit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from warm_kills import KilledSweep, results

from sage_cli.trials.executors.process_guard import LINUX

WORDS = ["--space", "tau=0.2|0.4,rho=0.5", "--guide", "branch", "--workers", "2"]
WORDS += ["--set", "executor.threads=2"]  # for which BLAS and OpenMP have pools
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LINUX, reason="elsewhere all are cold")]


def test_results_are_the_same(tmp_path: Path) -> None:
    """Weights, rollouts, records and the report."""
    found = []
    for warm in ("true", "false"):
        sweep = KilledSweep(tmp_path / warm, [*WORDS, "--set", f"executor.warm={warm}"])
        seen = set()
        while sweep.driver.poll() is None:
            seen |= {role for role, processes in sweep.roles().items() if processes}
            time.sleep(0.2)
        assert sweep.driver.returncode == 0, sweep.said
        assert ("warm process" in seen) == (warm == "true")
        found.append(list(results(sweep.folder)))
    assert found[0] == found[1]
    assert len(found[0]) == 2 * (2 + 3) + 2  # two runs: two files, three steps; two trials
