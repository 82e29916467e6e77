"""The clock of benchmarks: what a step is, and what isn't part of one."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def test_the_last_step_has_the_final_checkpoint_in_it_and_does_not_count(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from step_clock import Clock

    now = iter([0.0, 2.0, 5.0, 99.0])  # steps of 2 and 3 seconds; the last ends with a checkpoint
    clock = Clock(lambda: next(now))
    for _ in range(3):
        clock.on_step_begin()
    clock.on_train_end(None, None, None)
    assert clock.steps_s == [2.0, 3.0]
