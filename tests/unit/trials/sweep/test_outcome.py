"""What a sweep's report says of trials that lost results, and their learning curves."""

import json

import numpy as np
import pytest

from sage_cli.config.load import load
from sage_cli.errors import StoreError
from sage_cli.metrics import Counts
from sage_cli.reports.provenance import Provenance
from sage_cli.store.json_files import json_text
from sage_cli.store.run import Run
from sage_cli.trials.sweep.outcome import POINTS, learning_curve, lost, outcome
from sage_cli.trials.sweep.plan import Sweep, prepare_sweep
from sage_cli.trials.sweep.result import from_data

OUTCOME = "sage_cli.trials.sweep.outcome"
TAUS = (0.1, 0.2, 0.3, 0.4)
RIGHT = {0.1: 10, 0.2: 40, 0.3: 20, 0.4: 30}
"""Right samples of 64, of each problem: the second trial is the best."""
P, N = 40, 64


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """A sweep of four trials of two seeds, all done, whose store is a dictionary; and its study."""
    flags = {"guide": {"name": "branch"}, "run": {"root": tmp_path / "runs"}}
    space = "|".join(map(str, TAUS))
    sets = [
        f"sweep.space=tau={space}",
        "sweep.seeds=2",
        "sweep.objective=[pass@1]",
        "sweep.samples=64",
        "tracking.wandb=off",
    ]
    sweep = prepare_sweep(load(["tiny"], flags, sets=sets).config)
    store = {}
    for tau in TAUS:
        for seed in range(2):
            run = run_of(sweep, tau, seed)
            c_P = np.full(P, RIGHT[tau]) + np.arange(P) % 3 - 1 + seed
            counts = Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)
            store[run] = {"dev": counts}

    def results_of_one(self, one):
        found = store.get(one.policy.label)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Sweep, "results", results_of_one)
    monkeypatch.setattr(f"{OUTCOME}.configured_provenance", lambda *_: Provenance())
    study = sweep.open_study()
    for tau in TAUS:
        study.tell(study.propose(), [RIGHT[tau] / N])
    return sweep, study, store


def read(document):
    return from_data(json.loads(json_text(document.data)))


def run_of(sweep, tau, seed):
    return sweep.trial({"guide.tau": tau}).replicates[seed].policy.label


def test_a_sweep_that_is_whole_has_lost_nothing(swept):
    sweep, study, _ = swept
    assert lost(study, sweep) == []
    result = read(outcome(sweep, study, ()))
    assert [trial.state for trial in result.trials] == ["done"] * 4
    assert result.best("pass@1") == 1


@pytest.mark.parametrize("why", ["deleted", "refused"])
def test_a_trial_that_is_lost_is_named_and_takes_nothing_from_the_others(swept, why):
    sweep, study, store = swept
    name = run_of(sweep, 0.2, 1)
    if why == "deleted":
        del store[name]
    else:
        store[name] = StoreError(f"part 3 of {name} is torn")
    assert [one.point for one in lost(study, sweep)] == [{"guide.tau": 0.2}]
    document = outcome(sweep, study, ())
    result = read(document)
    assert [trial.state for trial in result.trials] == ["done", "missing", "done", "done"]
    assert name in result.trials[1].missing
    assert result.trials[1].values == {"pass@1": 40 / 64}  # as the study remembers it
    assert [place for place, one in enumerate(result.trials) if one.intervals] == [0, 2, 3]
    assert result.rankings["pass@1"].best == result.best("pass@1") == 3  # 30 of 64
    notes = " ".join(document.tables[0].notes)
    assert "trial 2 had results that are no longer stored" in notes


def recorded(folder, records):
    run = Run(folder)
    folder.mkdir(exist_ok=True)
    for record in records:
        run.metrics.append(record)
    return run


def test_a_curve_is_of_validations_or_of_the_reward_in_windows(tmp_path):
    records = [
        {"step": 1, "of": 3, "reward": 0.5},
        {"step": 2, "of": 3, "reward": 0.5, "eval/pass@1": 0.25},
        {"step": 3, "of": 3, "reward": 0.5, "eval/pass@1": None},
    ]
    curve = learning_curve(recorded(tmp_path / "a", records))
    assert (curve.of, curve.points) == ("eval/pass@1", ((2, 0.25),))
    steps = range(1, 2 * POINTS + 2)  # 81 steps: 27 windows of 3
    records = [{"step": step, "of": 81, "reward": float(step)} for step in steps]
    curve = learning_curve(recorded(tmp_path / "long", records))
    assert curve.of == "reward"
    assert len(curve.points) == 27
    assert curve.points[0] == (3, 2.0)  # (1 + 2 + 3) / 3
    assert curve.points[-1] == (81, 80.0)  # (79 + 80 + 81) / 3
    assert learning_curve(None) is None
    assert learning_curve(Run(tmp_path / "nothing")) is None
    broken = [{"step": 1, "of": 1, "reward": float("nan")}]
    assert learning_curve(recorded(tmp_path / "b", broken)) is None
