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


def test_methods_with_seeds_of_their_own_keep_their_level(simulation):
    """Also where the side with fewer seeds varies three and four times as much."""
    wanted = {((2, 6), (0.3, 0.1)), ((3, 8), (0.4, 0.1)), ((5, 5), (0.2, 0.2))}
    cases = [one for one in simulation.UNPAIRED if (one.seeds, one.sds) in wanted]
    rows = list(simulation.methods(1000, cases))
    assert len(rows) == 3
    # two standard errors of .05 over 1,000 repetitions are .014
    assert max(float(row["p at most 0.05"]) for row in rows) <= 0.064
    assert rows[-1]["power"] > 0.8


def test_pairs_of_seeds_keep_their_level_and_see_more(simulation):
    cases = [one for one in simulation.PAIRED if one.seeds == (4, 4) and one.correlation == 0.9]
    (row,) = simulation.paired(1000, cases)
    assert float(row["p at most 0.05"]) <= 0.064
    assert row["power"] >= 0.45
    assert row["power, unpaired"] < 0.2


def test_a_method_against_a_base_is_covered(simulation):
    """With seeds that differ by 0, .1 and .2 logits, and 2, 3 and 5 of them."""
    rows = list(simulation.base(1500))
    assert len(rows) == 18
    assert min(row["covers"] for row in rows) >= 0.93
    worst = min(rows, key=lambda row: row["models at hand: covers"])
    assert worst["models at hand: covers"] < 0.5


def test_pooled_seeds_cover_where_they_vary_alike(simulation):
    rows = {
        (row["deviations of the seeds"], row["correlation"], row["against"]): row
        for row in simulation.pooled(1500)
    }
    for against in ("another arm", "the base"):
        for correlation in (0.0, 0.9):
            assert rows["all alike", correlation, against]["pooled: covers"] >= 0.93
        row = rows["all alike", 0.0, against]
        assert row["pooled: width"] < 0.9 * row["own seeds: width"]
        # the price where those compared vary twice as much as the others: docs/results/coverage.md
        broken = rows["both compared twice the others'", 0.0, against]
        assert broken["pooled: covers"] < 0.93


def test_clusters_are_covered_where_their_problems_are_not_independent(simulation):
    rows = {(row["clusters"], row["share"]): row for row in simulation.clusters(300)}
    assert min(row["by clusters: covers"] for row in rows.values()) >= 0.88
    assert rows["50 clusters of 4", 1.0]["by problems: covers"] < 0.75
    # nothing in common: hardly wider
    assert rows["50 clusters of 4", 0.0]["width / by problems"] < 1.1


def test_crossings_are_announced_where_they_are(simulation):
    rows = {row["pair"]: row for row in simulation.crossings(10, (60,))}
    assert rows["one policy twice"]["established"] <= 0.1
    assert rows["sharpened"]["established"] >= 0.7
