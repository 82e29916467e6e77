"""What makes a sweep impossible is an error before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.trials.search.prepared import prepared


def sweep_of(tmp_path: Path, objective: str, limit: int, **named: object) -> SageConfig:
    section = {"space": "tau=0.2:0.8", "sampler": "random", "objective": objective, **named}
    settings = {
        "run": {"root": tmp_path},
        "guide": {"name": "branch"},
        "evaluation": {"limit": limit},
    }
    return load(["tiny"], {**settings, "sweep": section}).config


@pytest.mark.parametrize(("objective", "limit"), [("gain@8", 2), ("exact@8", 1), ("pass@8", 1)])
def test_so_many_problems_are_enough(tmp_path: Path, objective: str, limit: int) -> None:
    sweep = prepared(sweep_of(tmp_path, objective, limit))
    assert {len(one.problems) for one in sweep.benchmarks} == {limit}


def test_a_gain_on_one_problem_is_refused(tmp_path: Path) -> None:
    """The jackknife leaves out one problem after the other."""
    with pytest.raises(ConfigurationError, match=r"gain@8 needs two problems or more, .* has one"):
        prepared(sweep_of(tmp_path, "gain@8", 1))


@pytest.mark.parametrize("objective", ["pass@8", "exact@8"])
def test_temperatures_that_nothing_reads_are_refused(tmp_path: Path, objective: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"temperatures 1.3 would do .* is {objective}"):
        prepared(sweep_of(tmp_path, objective, 2, temperatures=[1.3]))
    prepared(sweep_of(tmp_path, "gain@8", 2, temperatures=[1.3]))
