"""What `sage sweeps confirm` plans, and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_cells import GRID, at
from sweep_folder import TRIALS, sweep_folder

from sage_cli.commands.trials.confirm import dry_run, planned
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.sweep_runs import Entry, SweepRuns
from sage_cli.trials.search.confirmation import FRESH
from sage_cli.trials.search.folder import SweepFolder, Sweeps


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Four trials of which trials 1, 3 and 4 are done; 3 and 4 are better than 1."""
    return SweepFolder(sweep_folder(tmp_path / "runs", "mine"))


def test_the_best_trials_are_planned_with_fresh_seeds_on_the_reported_benchmark(
    sweep: SweepFolder,
) -> None:
    plan = planned(sweep, seeds=2, top=2)
    assert set(plan.points) == {2, 3}
    assert plan.config.evaluation.benchmark == "arithmetic"  # the search's is arithmetic-dev
    assert plan.config.rl.steps == 30  # the search's sweep.steps
    first = plan.replicates(2)
    assert [one.config.rl.seed for one in first] == [1 + FRESH, 2 + FRESH]  # tiny has rl.seed 1
    assert {one.config.guide.tau for one in first} == {1.2}
    names = [task.name for task in plan.tasks()]
    assert len(names) == 1 + 4  # both start from one initial policy
    (stage,) = dry_run(plan)
    assert stage.facts["rl.seed"] == "1001 to 1002"
    assert {value.rsplit(": ")[-1] for value in stage.facts.values() if "rl-" in str(value)} == {
        "to do"
    }
    assert not (sweep.path / "runs.jsonl").exists()


def test_three_trials_are_confirmed_unless_there_are_fewer(sweep, tmp_path) -> None:
    assert len(planned(sweep, 1).points) == 3
    two = SweepFolder(sweep_folder(tmp_path / "runs", "two", TRIALS[1:3]))
    assert set(planned(two, 1).points) == {1}


def test_more_trials_than_are_done_are_refused(sweep: SweepFolder) -> None:
    with pytest.raises(ConfigurationError, match="--top 4: mine has 3 finished trials"):
        planned(sweep, 1, top=4)


def test_a_sweep_without_a_finished_trial_or_a_report_is_refused(tmp_path: Path) -> None:
    none = SweepFolder(sweep_folder(tmp_path / "runs", "none", TRIALS[1:2]))
    with pytest.raises(StoreError, match="no trial of none is done"):
        planned(none, 1)
    (none.path / "sweep.json").unlink()
    with pytest.raises(StoreError, match="none has no report yet"):
        planned(none, 1)


def test_an_unknown_sweep_or_objective_is_refused(sweep: SweepFolder, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="other"):
        Sweeps(tmp_path / "runs").find("other")
    with pytest.raises(ConfigurationError, match="mine has no objective 'pass@2'"):
        planned(sweep, 1, objective="pass@2")


def test_seeds_that_the_search_has_are_not_fresh(sweep: SweepFolder) -> None:
    with pytest.raises(ConfigurationError, match="the search has 1001 seeds per trial"):
        planned(sweep, 1, sets=["sweep.seeds=1001"])
    label = planned(sweep, 1, top=1).tasks()[-1].name
    SweepRuns(sweep.path).append(Entry(at(GRID, 1.2, 0.1), FRESH, label))  # an earlier confirmation
    assert planned(sweep, 1, top=1)
    SweepRuns(sweep.path).append(Entry(at(GRID, 1.2, 0.1), 0, label))
    with pytest.raises(ConfigurationError, match=f"the run {label}.* would not be fresh"):
        planned(sweep, 1, top=1)


def test_settings_of_another_sweep_are_refused(sweep: SweepFolder, tmp_path: Path) -> None:
    held = planned(sweep, 1, top=1).sweep.determinants
    write_json(sweep.path / "settings.json", held)
    assert planned(sweep, 1, top=1, sets=["evaluation.samples=300"])
    with pytest.raises(
        ConfigurationError, match=r"mine is of another sweep: rl.steps was 30, is 7"
    ):
        planned(sweep, 1, top=1, sets=["sweep.steps=7"])
    with pytest.raises(ConfigurationError, match="belong to the sweep theirs, not to mine"):
        planned(sweep, 1, top=1, sets=["sweep.study=theirs"])


def test_problems_that_the_search_selected_on_are_named(sweep: SweepFolder) -> None:
    (stage,) = dry_run(planned(sweep, 1, sets=["evaluation.benchmark=arithmetic-dev"]))
    assert stage.facts["selected on"] == "arithmetic-dev: its problems are not fresh"
