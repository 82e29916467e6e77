""""""

import json
import re
from dataclasses import replace
from math import isnan, nan

import pytest
from sweep_cells import BOTH, GRID, MEMORY, PASS_1, at, done, sweep_document

from sage_cli.metrics.ranking import Front
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import to_csv
from sage_cli.settings.objective import parse_objective
from sage_cli.store.json_files import json_text
from sage_cli.trials.sweep.report import document_of
from sage_cli.trials.sweep.result import Axis, LearningCurve, SweepTrial, from_data

RANGES = (
    Axis("tau", "guide.tau", low=0.2, high=0.8),
    Axis("lr", "rl.learning_rate", low=1e-6, high=1e-3, log=True),
)

NOBODY = Provenance()
TRIALS = [
    SweepTrial(at(GRID, 0.8, 0.1), "done", {"pass@1": 0.4, "pass@64": 0.9}, runs=("rl-1",)),
    SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY),
    SweepTrial(at(GRID, 1.2, 0.1), "done", {"pass@1": 0.45, "pass@64": 0.8}, runs=("rl-2", "rl-3")),
    SweepTrial(at(GRID, 1.2, 0.3), "pruned", pruned="by median at step 20: 0.3 below 0.4"),
]
TWO = (PASS_1, parse_objective("pass@64"))


def stems(document):
    return [figure.stem for figure in document.figures]


def test_a_trial_has_its_values_and_runs_or_why_there_are_none():
    base = SweepTrial({}, "done", {"pass@1": 0.3, "pass@64": 0.7}, runs=("sft-1",))
    document = sweep_document(GRID, TWO, TRIALS, NOBODY, base=base)
    assert to_csv(document.sheets["sweep"]).splitlines() == [
        "trial,tau,rho,pass@1,pass@64,seeds,run",
        "base,,,0.3,0.7,1,sft-1",
        "1,0.8,0.1,0.4,0.9,1,rl-1",
        "2,0.8,0.3,,,,failed: out of memory",
        "3,1.2,0.1,0.45,0.8,2,rl-2 rl-3",
        "4,1.2,0.3,,,,pruned by median at step 20: 0.3 below 0.4",
    ]
    _, failures = document.tables
    assert failures.rows[0].cells == (
        "2",
        "tau=0.8 rho=0.3",
        "out of memory",
        "OutOfMemoryError: 2 GiB more",
        "CUDA: no memory",
    )
    first, second, *_ = document.data["trials"]
    assert first.settings == {"guide.tau": 0.8, "guide.rho": 0.1}
    assert first.values == {"pass@1": 0.4, "pass@64": 0.9}
    assert second.failure.log == ("step 3", "CUDA: no memory", "")


def test_settings_that_a_trial_lacks_are_blank_and_small_ones_keep_their_digits():
    axes = (Axis("guide", "guide.name", ("none", "branch")), RANGES[0], RANGES[1])
    trials = [
        done({"guide.name": "none", "rl.learning_rate": 1.23456e-6}, 1),
        done({"guide.name": "branch", "guide.tau": 0.5, "rl.learning_rate": 1e-3}, 2),
    ]
    document = sweep_document(axes, (PASS_1,), trials, NOBODY)
    shown = [[str(trial) for trial in row.cells[1:4]] for row in document.tables[0].rows]
    assert shown == [["none", "–", "1.235e-06"], ["branch", "0.5", "0.001"]]
    assert ",none,,1.23456e-06," in to_csv(document.sheets["sweep"])
    assert stems(document) == []


def test_trials_that_cannot_be_told_apart_from_the_best_are_counted():
    trials = [
        done(at(GRID, 0.8, 0.1), 1, -1.5),
        SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY),
        done(at(GRID, 1.2, 0.1), 2),
        done(at(GRID, 1.2, 0.3), 3, 0.01),
    ]
    document = sweep_document(GRID, BOTH[:1], trials, NOBODY)
    ranking = document.data["rankings"]["pass@1"]
    # a place in `trials`, the failed one counted
    assert trials[ranking.best].values == max(
        (trials[2].values, trials[3].values), key=lambda one: one["pass@1"]
    )
    assert ranking.indistinguishable == (2, 3)
    sources, best = document.tables[0].notes
    assert sources.startswith("95% intervals over problems; they describe these runs")
    assert document.data["about"] == "models"
    assert best.startswith(f"pass@1: trial {ranking.best + 1} is best, and 1 of the ")
    assert "95% for all pairs together; standard error of a difference: 0.0" in best
    low, high = document.data["trials"][2].intervals["pass@1"]
    assert low < trials[2].values["pass@1"] < high
    assert document.data["trials"][1].intervals is None


def test_intervals_are_about_seeds_where_there_are_several_and_counts():
    trials = [done(at(GRID, 0.8, 0.1), 1, seeds=2), done(at(GRID, 1.2, 0.1), 2, seeds=2)]
    document = sweep_document(GRID, (PASS_1,), trials, NOBODY)
    assert document.tables[0].notes[0] == "95% intervals over problems and seeds"
    assert document.data["about"] == "methods"
    # one trial with one run: its place says nothing about its settings
    document = sweep_document(GRID, (PASS_1,), [*trials, done(at(GRID, 1.2, 0.3), 3)], NOBODY)
    assert document.data["about"] == "models"
    assert document.tables[0].notes[0].endswith("compared as models, not as settings")
    trials = [done(at(GRID, 0.8, 0.1), 1), replace(done(at(GRID, 1.2, 0.1), 2), counts=None)]
    document = sweep_document(GRID, (PASS_1,), trials, NOBODY)
    assert document.data["rankings"] == {}
    assert document.tables[0].notes == ()


def test_a_front_is_by_trials_and_selecting_on_what_is_reported_is_said():
    document = sweep_document(GRID, TWO, TRIALS, NOBODY)
    # (.4, .9) and (.45, .8) trade one for the other
    assert document.data["front"] == Front((0, 2), (0, 2))
    assert document.tables[0].notes == ("Pareto front: trials 1, 3",)
    beaten = [
        *TRIALS,
        SweepTrial(at(GRID, 2.0, 2.0), "done", {"pass@1": 0.39, "pass@64": 0.7}, runs=("rl-4",)),
    ]
    assert sweep_document(GRID, TWO, beaten, NOBODY).data["front"].best == (0, 2)
    assert sweep_document(GRID, (PASS_1,), [], NOBODY).data["front"] is None
    document = sweep_document(GRID, TWO, TRIALS, NOBODY, selected_on_reported="amc23")
    assert (
        document.tables[0].notes[-1].startswith("the best trial was selected on amc23, where its")
    )


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (GRID, ["heatmap"]),
        (RANGES, []),
        (RANGES[:1], []),
        ((GRID[0], RANGES[1]), []),
        ((Axis("guide", "guide.name", ("none", "branch")), RANGES[1]), []),
    ],
)
def test_the_space_decides_which_pictures_there_are(axes, expected):
    first = axes[0].values[0] if axes[0].values else 0.5
    assert stems(sweep_document(axes, (PASS_1,), [done(at(axes, first, 1e-5), 1)], NOBODY)) == (
        expected
    )


def test_the_document_is_read_back_from_its_json_undefined_values_too(tmp_path):
    trials = [
        done(at(GRID, 0.8, 0.1), 1, objectives=BOTH),
        SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY),
        done(at(GRID, 1.2, 0.1), 2, -1, objectives=BOTH),
        SweepTrial(at(GRID, 1.2, 0.3), "pruned", pruned="by asha"),
    ]
    base = done({}, 9, -1, objectives=BOTH)
    document = sweep_document(
        GRID,
        BOTH,
        trials,
        NOBODY,
        base=base,
        selected_on_reported="amc23",
    )
    document.write(tmp_path)
    data = json.loads((tmp_path / "sweep.json").read_text())
    again = document_of(from_data(data), NOBODY)
    assert again.content == document.content
    assert again.tables == document.tables
    trials = [SweepTrial(at(GRID, 0.8, 0.1), "done", {"pass@1": nan}, runs=("rl-1",))]
    sweep_document(GRID, (PASS_1,), trials, NOBODY).write(tmp_path)
    data = json.loads((tmp_path / "sweep.json").read_text())
    assert isnan(from_data(data).trials[0].values["pass@1"])


def test_what_lacks_a_part_is_never_half_read():
    trials = [done(at(GRID, 0.8, rho), 1, 1.5, objectives=BOTH) for rho in (0.1, 0.3)]
    document = sweep_document(GRID, BOTH, trials, NOBODY)
    whole = json.loads(json_text(document.data))
    for part in ("rankings", "trials", "front"):
        with pytest.raises(KeyError, match=part):
            from_data({name: value for name, value in whole.items() if name != part})
    for part in ("values", "intervals"):
        again = json.loads(json_text(whole))
        del again["trials"][1][part][BOTH[1].name]
        with pytest.raises(KeyError, match=re.escape(BOTH[1].name)):
            from_data(again)


def test_a_curve_survives_the_stored_report():
    curve = LearningCurve("reward", ((1, 0.25), (2, 0.5)))
    trials = [
        replace(done(at(GRID, 0.8, 0.1), 1, objectives=BOTH), curve=curve),
        done(at(GRID, 1.2, 0.1), 2, 1.0, objectives=BOTH),
        replace(SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY), curve=curve),
    ]
    document = sweep_document(GRID, BOTH, trials, NOBODY)
    result = from_data(json.loads(json_text(document.data)))
    assert [trial.curve for trial in result.trials] == [curve, None, curve]
