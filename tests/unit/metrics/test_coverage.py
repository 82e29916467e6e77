"""A small version of benchmarks/coverage.py: the statistics that docs/results/coverage.md tells."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def simulation():
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


def test_bands_cover(simulation):
    populations = [simulation.POPULATIONS[place] for place in (3, 6, 10, 12, 13, 14)]
    rows = list(simulation.bands(400, populations))
    assert len(rows) == 18
    assert min(row["covers"] for row in rows) >= 0.93
    ordinary = [row for row in rows if 0.2 < row["pass@k"] < 0.8]
    assert ordinary
    assert all(row["width / oracle"] <= 1.5 for row in ordinary)


def test_differences_cover_and_their_test_keeps_its_level(simulation):
    populations = [simulation.POPULATIONS[place] for place in (0, 3, 7, 9)]
    rows = list(simulation.differences(200, populations))
    assert len(rows) == 36
    assert max(row["p at most .05"] for row in rows if row["change"] == "none") <= 0.09
    assert min(row["covers"] for row in rows if row["change"] == "raised") >= 0.87
    ordinary = [row for row in rows if row["problems"] == 60 and row["k"] == 1]
    assert all(row["width / oracle"] < 1.3 for row in ordinary)


def test_the_safe_interval_keeps_its_level_where_rare_problems_lose_everything(simulation):
    """And the paired test doesn't: every false finding is warned of."""
    for row in simulation.rare(200, [(simulation.Beta(0.15, 0.75), 60)]):
        assert row["safe"] <= 0.05
        assert row["p at most .05"] > 0.08
        assert row["warned, of these"] == 1


def test_what_is_stated_as_detectable_is_detected(simulation):
    """Also where few problems differ; 200 repetitions alone scatter by .028."""
    rows = list(simulation.detectable(200, [(simulation.Beta(0.15, 0.75), 60)]))
    assert len(rows) == 9
    assert all(0.7 <= row["power"] <= 0.93 for row in rows)
    assert 0.77 <= sum(row["power"] for row in rows) / 9 <= 0.87


def test_methods_keep_their_level_and_find_what_is_there(simulation):
    three_seeds = [one for one in simulation.TRAININGS if one.seeds == 3 and not one.problem_sd][:2]
    for row in simulation.methods(1000, three_seeds):
        assert row["type-I error"] <= 0.07
        assert row["power"] >= 0.95 * row["power, t over runs"]
        assert row["power"] > 0.5


def test_a_method_against_a_base_is_covered(simulation):
    """With seeds that differ by 0, .1 and .2 logits, and 2, 3 and 5 of them."""
    rows = list(simulation.base(1500))
    assert len(rows) == 18
    assert min(row["covers"] for row in rows) >= 0.93
    worst = min(rows, key=lambda row: row["models at hand: covers"])
    assert worst["models at hand: covers"] < 0.5


def test_pooled_seeds_cover_where_they_vary_alike(simulation):
    rows = {
        (row["deviations of the seeds"], row["against"]): row for row in simulation.pooled(1500)
    }
    for against in ("another method", "the base"):
        row = rows["all alike", against]
        assert row["pooled: covers"] >= 0.93
        assert row["pooled: width"] < 0.9 * row["own seeds: width"]
        # the price where those compared vary twice as much as the others: docs/results/coverage.md
        broken = rows["both compared twice the others'", against]
        assert 0.83 <= broken["pooled: covers"] <= 0.91


def test_crossings_are_announced_where_they_are(simulation):
    rows = {row["pair"]: row for row in simulation.crossings(10, (60,))}
    assert rows["one policy twice"]["established"] <= 0.1
    assert rows["sharpened"]["established"] >= 0.7
