"""A trial's curve: validation where it was recorded, else the reward, thinned."""

from sage_cli.store.runs.run import Run
from sage_cli.trials.search.learning_curves import POINTS, learning_curve


def run_of(folder, records):
    run = Run(folder)
    folder.mkdir(exist_ok=True)
    for record in records:
        run.metrics.append(record)
    return run


def test_validation_comes_before_the_reward(tmp_path):
    records = [
        {"step": 1, "of": 3, "reward": 0.5},
        {"step": 2, "of": 3, "reward": 0.5, "eval/pass@1": 0.25},
        {"step": 3, "of": 3, "reward": 0.5, "eval/pass@1": None},
    ]
    curve = learning_curve(run_of(tmp_path / "a", records))
    assert (curve.of, curve.points) == ("eval/pass@1", ((2, 0.25),))


def test_a_long_reward_is_averaged_over_windows(tmp_path):
    steps = range(1, 2 * POINTS + 2)  # 81 steps: 27 windows of 3
    run = run_of(tmp_path / "a", [{"step": s, "of": 81, "reward": float(s)} for s in steps])
    curve = learning_curve(run)
    assert curve.of == "reward"
    assert len(curve.points) == 27
    assert curve.points[0] == (3, 2.0)  # (1 + 2 + 3) / 3
    assert curve.points[-1] == (81, 80.0)  # (79 + 80 + 81) / 3


def test_a_run_that_never_began_has_no_curve(tmp_path):
    assert learning_curve(None) is None
    assert learning_curve(Run(tmp_path / "nothing")) is None
    broken = [{"step": 1, "of": 1, "reward": float("nan")}]
    assert learning_curve(run_of(tmp_path / "b", broken)) is None
