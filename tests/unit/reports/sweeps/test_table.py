"""What a sweep's report says of its best trial."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sweep_cells import BOTH, GRID, PASS_1, at, done

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.reports.sweeps.result import CountedTrial, SweepTrial, base_values, from_data
from sage_cli.reports.sweeps.table import describe_winner, short_note, sweep_tables
from sage_cli.reports.tables.render import to_csv
from sage_cli.store.json_files import read_object

POINTS = ((0.8, 0.1), (0.8, 0.3), (1.2, 0.1))


def document(seeds: int = 1, base: SweepTrial | None = None, count: int = 3, objectives=(PASS_1,)):
    trials = [
        SweepTrial(at(GRID, 1.2, 0.3), "pruned", pruned="by asha"),
        *(
            done(at(GRID, *point), place, 0.4 * place, seeds, objectives)
            for place, point in enumerate(POINTS[:count])
        ),
    ]
    return sweep_document(GRID, objectives, trials, Provenance(), base=base)


def test_the_table_names_trials_by_number_and_pairs_them_with_base_and_second() -> None:
    found = document(base=done({}, 9, -1.0))
    one = found.data["winners"]["pass@1"]
    assert (one.best, one.second) == (3, 2)  # the pruned trial has the first place
    trials, table = found.tables
    rows = {row.cells[0]: row.cells[1] for row in table.rows}
    assert (rows["trial"], rows["second best trial"]) == ("4", "3")
    values = [
        float(line.split(",")[3]) for line in to_csv(trials).splitlines()[1:] if ",," not in line
    ]
    assert abs(rows["less second best"].value - (values[2] - values[1])) < 1e-9
    assert rows["less initial policy"].interval is not None
    assert rows["less initial policy"].value > rows["less second best"].value
    assert set(rows) >= {"optimism at least", "optimism at most"}
    assert "does not show how seeds vary" in table.notes[-1]


def test_with_several_seeds_the_optimism_is_estimated() -> None:
    table = document(seeds=3).tables[1]
    rows = {row.cells[0]: row.cells[1] for row in table.rows}
    assert "optimism at least" not in rows
    assert 0 <= rows["optimism"].value < 0.1
    assert str(rows["less initial policy"]) == "–"  # it is not measured
    assert len(table.notes) == 2


def test_one_trial_has_no_second_and_without_counts_nothing_is_said() -> None:
    alone = document(count=1, base=done({}, 9, -1.0))
    rows = {row.cells[0]: str(row.cells[1]) for row in alone.tables[1].rows}
    assert rows["less initial policy"].startswith("+0.")
    assert [rows[name] for name in ("second best trial", "less second best")] == ["–", "–"]
    assert len(alone.tables[1].notes) == 1
    uncounted = [SweepTrial(at(GRID, 0.8, 0.1), "done", {"pass@1": 0.4}, runs=("rl-1",))]
    found = sweep_document(GRID, (PASS_1,), uncounted, Provenance())
    assert found.data["winners"] == {}
    assert len(found.tables) == 1


def test_each_objective_has_a_column() -> None:
    table = document(objectives=BOTH).tables[1]
    assert [column.name for column in table.columns[1:]] == [one.name for one in BOTH]


def test_sentences_say_estimate_or_bounds() -> None:
    (bounds,) = document().data["winners"].values()
    said = describe_winner(bounds)
    assert len(said) == 2  # without a base
    assert said[0].startswith("less the second best, trial 3: +0.")
    assert "at least" in said[1]
    (estimated,) = document(3, done({}, 9, -1.0)).data["winners"].values()
    base, _, chosen = describe_winner(estimated)
    assert base.startswith("less initial policy: +0.")
    assert chosen == f"optimism of the choice: about {estimated.optimism.estimate:.3f}"


def test_the_base_has_the_order_of_the_trials_problems() -> None:
    first, base = done({}, 1), done({}, 9, -1.0)
    turned = {
        name: type(one)(one.problem_ids[::-1], one.n_P[::-1], one.c_P[::-1])
        for name, one in base.counts[0].items()
    }
    shuffled = CountedTrial({}, "done", base.values, runs=base.runs, counts=(turned,))
    np.testing.assert_array_equal(
        base_values(PASS_1, base, first.counts), base_values(PASS_1, shuffled, first.counts)
    )
    assert base_values(PASS_1, None, first.counts) is None


def test_a_report_that_is_read_again_without_counts_has_the_same_table(tmp_path) -> None:
    found = document(base=done({}, 9, -1.0))
    file = tmp_path / "sweep.json"
    replace(found, figures=()).write(tmp_path)
    again = from_data(read_object(file, ""))
    assert sweep_tables(again) == found.tables
    assert short_note(again, "pass@1").startswith("best less initial policy +0.")
    assert short_note(again, "pass@2") == ""
