"""A grid's memory: nothing lost, nothing done twice, whatever ends a trial."""

import pytest

from sage_cli.sweep.space import Space
from sage_cli.sweep.study import Study

SPACE = Space(
    "tau,rho",
    {"tau": "guide.tau", "rho": "guide.rho"},
    {"tau": (0.1, 0.2), "rho": (1.0, 2.0)},
)
CELLS = list(SPACE.cells())


@pytest.fixture
def opened(tmp_path):
    """Open the study anew, as another process would."""
    return lambda: Study(tmp_path / "tau-rho-1", SPACE, ("pass@1", "pass@64"))


def finish(study, cell, first=0.5):
    study.succeed(study.begin(cell), f"rl-{first}", {"pass@1": first, "pass@64": 0.9})


def test_results_survive_reopening_in_the_grids_order(opened):
    study = opened()
    assert study.pending() == CELLS
    assert study.results() == []
    finish(study, CELLS[2], 0.3)
    finish(study, CELLS[0], 0.1)
    again = opened()
    assert again.pending() == [CELLS[1], CELLS[3]]
    assert [(r.cell, r.values, r.run) for r in again.results()] == [
        (CELLS[0], (0.1, 0.9), "rl-0.1"),
        (CELLS[2], (0.3, 0.9), "rl-0.3"),
    ]


def test_an_interrupted_trial_is_run_again_and_leaves_no_result(opened):
    study = opened()
    study.begin(CELLS[0])
    again = opened()
    assert again.pending() == CELLS
    assert again.results() == []
    finish(again, CELLS[0])
    assert opened().pending() == CELLS[1:]


def test_an_interruption_between_enqueueing_and_asking_does_no_harm(opened):
    study = opened()
    study._study.enqueue_trial({"tau": 0.2, "rho": 2.0})  # where begin() may be interrupted
    again = opened()
    trial = again.begin(CELLS[0])
    assert trial.params == {"tau": 0.1, "rho": 1.0}


def test_a_failed_cell_keeps_its_reason_and_is_pending_again(opened):
    study = opened()
    study.fail(study.begin(CELLS[1]), "TrainingError: all clipped")
    again = opened()
    assert again.pending() == CELLS
    (failed,) = again.results()
    assert (failed.cell, failed.values, failed.run) == (CELLS[1], None, None)
    assert failed.reason == "TrainingError: all clipped"


def test_the_latest_failure_counts_until_there_is_a_result(opened):
    study = opened()
    study.fail(study.begin(CELLS[1]), "first")
    study.fail(study.begin(CELLS[1]), "second")
    assert [result.reason for result in study.results()] == ["second"]
    finish(study, CELLS[1])
    assert [(r.values, r.reason) for r in opened().results()] == [((0.5, 0.9), None)]
    study.fail(study.begin(CELLS[1]), "tried again by hand")
    assert [r.values for r in opened().results()] == [(0.5, 0.9)]


def test_a_trial_has_its_cells_values_whatever_the_sampler_would_suggest(opened):
    study = opened()
    for cell in CELLS * 3:
        trial = study.begin(cell)
        assert {SPACE.keys[name]: value for name, value in trial.params.items()} == cell
        study.fail(trial, "no reason")
