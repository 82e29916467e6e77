"""A small version of benchmarks/coverage.py: the statistics that docs/results/coverage.md tells."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def simulation() -> Any:
    """benchmarks/coverage.py as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec = importlib.util.spec_from_file_location("coverage_table", BENCHMARKS / "coverage.py")
        assert spec is not None
        assert spec.loader is not None
        module = ModuleType("coverage_table")
        sys.modules["coverage_table"] = module
        spec.loader.exec_module(module)
        yield module
        del sys.modules["coverage_table"]


def test_bands_cover(simulation: Any) -> None:
    populations = [simulation.POPULATIONS[place] for place in (3, 6, 12, 13)]
    rows = list(simulation.bands(80, populations))
    assert len(rows) == 12
    assert min(row["covers"] for row in rows) >= 0.9


def test_differences_cover_and_their_test_keeps_its_level(simulation: Any) -> None:
    rows = list(simulation.differences(40, [simulation.POPULATIONS[place] for place in (0, 7)]))
    assert len(rows) == 18
    assert max(row["p at most .05"] for row in rows if row["change"] == "none") <= 0.15
    ordinary = [row for row in rows if row["problems"] == 60 and row["k"] == 1]
    assert all(row["width / oracle"] < 1.3 for row in ordinary)


def test_methods_keep_their_level_and_find_what_is_there(simulation: Any) -> None:
    three_seeds = [one for one in simulation.TRAININGS if one.seeds == 3 and not one.problem_sd][:2]
    for row in simulation.methods(40, three_seeds):
        assert row["type-I error"] <= 0.15
        assert row["power"] > 0.5


def test_crossings_are_announced_where_they_are(simulation: Any) -> None:
    rows = {row["pair"]: row for row in simulation.crossings(20, (60,))}
    assert rows["one policy twice"]["established"] <= 0.15
    assert rows["few problems for many"]["established"] >= 0.5
