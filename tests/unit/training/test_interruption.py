"""Signals to a training in this process: saved at the boundary, ended, gone on with."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_policy import timeless, weights
from transformers import PreTrainedModel, Trainer

from sage_cli.errors import ConfigurationError, Interrupted, StoreError, TrainingError
from sage_cli.models.loading import load_model, load_tokenizer
from sage_cli.settings.sections.training import SftSection
from sage_cli.store.run import Run
from sage_cli.training import interruption
from sage_cli.training.checkpoints import saved_step, seal
from sage_cli.training.interruption import wait_s
from sage_cli.training.launch import StopSignals
from sage_cli.training.sft import Example, train_sft

EXAMPLES = [Example(f"{a}+{b}=", str(a + b)) for a in range(10) for b in range(10)]
SFT = SftSection(
    steps=8, batch_size=4, learning_rate=1e-2, optimizer="adamw", gradient_checkpointing=False,
    warmup_steps=1, save_every=100, seed=5,
)  # fmt: skip
Train = Callable[..., None]


def signalling(step: int, *numbers: int) -> Callable[[Any], None]:
    """Hears steps, and sends this process signals at one of them."""

    def on_step(record: Any) -> None:
        if record["step"] == step:
            for number in numbers:
                os.kill(os.getpid(), number)

    return on_step


@pytest.fixture(params=["sft", "rl"])
def train(request: pytest.FixtureRequest, bench: Any, configure: Any) -> Train:
    """Train 8 steps in the folder `name`; no checkpoint is due before the last step."""

    def sft(name: str, on_step: Any = lambda _: None) -> None:
        run = Run(bench.folder / name)
        train_sft(SFT, load_model(bench.base), load_tokenizer(bench.base), EXAMPLES, run, on_step)

    def rl(name: str, on_step: Any = lambda _: None) -> None:
        bench.run(configure(rl={"steps": 8, "save_every": 100}), name, on_step=on_step)

    return sft if request.param == "sft" else rl


def records(run: Run) -> list[dict[str, Any]]:
    return timeless(run.metrics.read())


def test_a_signal_saves_at_the_next_boundary_and_nothing_is_lost(bench: Any, train: Train):
    train("whole")
    # in the first, in the midst, in the last
    for step, number in ((1, signal.SIGINT), (5, signal.SIGTERM), (8, signal.SIGINT)):
        before = signal.getsignal(number)
        # the record is written at the end of its step, the signal meets the next one
        with pytest.raises(Interrupted, match="interrupted by") as caught:
            train("torn", signalling(step, number))
        reached = min(step + 1, 8)
        assert caught.value.exit_code == 128 + number
        assert caught.value.saved == f"torn is saved at step {reached}"
        assert saved_step(bench.folder / "torn/checkpoints") == reached
        assert len(Run(bench.folder / "torn").metrics.read()) == reached
        assert signal.getsignal(number) == before
    train("torn")
    whole, torn = (Run(bench.folder / name) for name in ("whole", "torn"))
    assert records(torn) == records(whole)
    assert (torn.model / "model.safetensors").read_bytes() == (
        whole.model / "model.safetensors"
    ).read_bytes()


def test_a_signal_before_the_first_step_is_done_saves_that_step(
    bench: Any, train: Train, monkeypatch: pytest.MonkeyPatch
):
    step = Trainer.training_step

    def signalled(self: Any, *arguments: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "training_step", signalled)
        with pytest.raises(Interrupted) as caught:
            train("torn")
    assert caught.value.saved == "torn is saved at step 1"


def test_a_second_signal_ends_at_once(bench: Any, train: Train):
    with pytest.raises(Interrupted) as caught:
        train("torn", signalling(3, signal.SIGTERM, signal.SIGINT))
    assert (caught.value.exit_code, caught.value.saved) == (130, None)
    assert saved_step(bench.folder / "torn/checkpoints") == 0


def test_a_second_signal_while_saving_leaves_what_was_saved_before(
    bench: Any, train: Train, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(Interrupted):
        train("torn", signalling(2, signal.SIGINT))
    assert saved_step(bench.folder / "torn/checkpoints") == 3
    save = Trainer._save_optimizer_and_scheduler

    def impatient(self: Any, folder: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        save(self, folder)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save_optimizer_and_scheduler", impatient)
        with pytest.raises(Interrupted):
            train("torn", signalling(5, signal.SIGINT))
    assert saved_step(bench.folder / "torn/checkpoints") == 3
    train("torn")
    assert len(Run(bench.folder / "torn").metrics.read()) == 8


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_saving_on_a_signal_is_said(
    bench: Any, train: Train, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save_optimizer_and_scheduler", full)
        with pytest.raises(TrainingError, match="is full: checkpoint-4 couldn't be written"):
            train("torn", signalling(3, signal.SIGTERM))
    assert list((bench.folder / "torn/checkpoints").iterdir()) == []
    train("torn")


def test_a_full_disk_at_the_end_leaves_the_last_checkpoint(
    bench: Any, train: Train, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        patched.setattr("transformers.PreTrainedModel.save_pretrained", saving_but("model", full))
        with pytest.raises(TrainingError, match="is full: model couldn't be written") as caught:
            train("torn")
    assert "resumes from the last checkpoint" in str(caught.value.next_step)
    train("torn")
    assert len(Run(bench.folder / "torn").metrics.read()) == 8


def saving_but(name: str, fail: Callable[..., None]) -> Callable[..., Any]:
    """`save_pretrained` that fails in the folder `name`."""
    save = PreTrainedModel.save_pretrained

    def act(self: Any, folder: Any, *arguments: Any, **named: Any) -> Any:
        (fail if Path(folder).name == name else save)(self, folder, *arguments, **named)

    return act


def test_the_boundary_is_a_generations_end(bench: Any, configure: Any, capfd: Any):
    """A record is heard when its step is done: at 1 of 6 steps to a batch 5 are left."""
    rl = {"steps": 15, "iterations": 3, "steps_per_generation": 2, "save_every": 99}
    config = configure(rl=rl)
    bench.run(config, "whole")
    for step, boundary, left in ((1, 6, "in 5 steps"), (11, 12, "after this step")):
        with pytest.raises(Interrupted) as caught:
            bench.run(config, "torn", on_step=signalling(step, signal.SIGTERM))
        assert caught.value.saved == f"torn is saved at step {boundary}"
        assert f"SIGTERM: saving {left}" in capfd.readouterr().err
    bench.run(config, "torn")
    assert records(Run(bench.folder / "torn")) == records(Run(bench.folder / "whole"))


def test_the_last_batch_may_be_short(capfd: Any):
    with StopSignals(patient=False, period=4) as signals:
        signals.done(8, steps=10)
        os.kill(os.getpid(), signal.SIGTERM)
    assert "saving in 2 steps" in capfd.readouterr().err


def test_a_checkpoint_inside_a_generation_batch_is_refused_by_name(bench: Any, configure: Any):
    """Between steps 3 and 4 of the batch of steps 3 to 4."""
    rl = {"steps": 6, "steps_per_generation": 2, "save_every": 2, "keep_checkpoints": None}
    bench.run(configure(rl=rl), "run")
    run = Run(bench.folder / "run")
    whole, checkpoints = records(run), run.checkpoints
    shutil.rmtree(checkpoints / "checkpoint-4")
    (checkpoints / "checkpoint-6").rename(checkpoints / "checkpoint-3")
    refusal = r"checkpoint-3 was saved inside a generation batch, that of steps 3 to 4"
    with pytest.raises(StoreError, match=refusal) as caught:
        bench.run(configure(rl=rl), "run")
    assert "remove" in str(caught.value.next_step)
    assert "--fresh" in str(caught.value.next_step)
    assert len(run.metrics.read()) == 6  # nothing is forgotten yet
    shutil.rmtree(checkpoints / "checkpoint-3")  # what the message says
    bench.run(configure(rl=rl), "run")
    assert records(run) == whole


def test_the_last_step_may_lie_inside_a_batch(bench: Any, configure: Any):
    config = configure(rl={"steps": 3, "steps_per_generation": 2})
    bench.run(config, "run")
    before = weights(bench.folder / "run/model")
    shutil.rmtree(bench.folder / "run/model")
    assert bench.run(config, "run") == []  # its weights are taken from its last checkpoint
    assert weights(bench.folder / "run/model") == before


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the checkpoints that are sealed from now on."""
    names: list[str] = []

    def noted(checkpoint: Path, *also: Any, **words: Any) -> None:
        names.append(checkpoint.name)
        seal(checkpoint, *also, **words)

    monkeypatch.setattr(interruption, "seal", noted)
    return names


def test_minutes_save_too_and_change_nothing(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, sealed: list[str]
):
    """A clock on which each look at it takes a minute: one is taken at every boundary and save."""
    config = configure(rl={"steps": 7, "save_every": 99, "keep_checkpoints": 9})
    bench.run(config, "whole")
    sealed.clear()
    minutes = iter(range(10**6))
    monkeypatch.setattr(interruption, "monotonic", lambda: 60.0 * next(minutes))
    often = configure(rl={"steps": 7, "save_every": 99, "keep_checkpoints": 9, "save_minutes": 2})
    bench.run(often, "saved")
    # looks: begun 0, steps 1 and 2 at 1 and 2 (due: saved, at 3), steps 3 and 4 at 4 and 5, ...
    assert sealed == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-7"]
    # none of them is one of every 99 steps: only the last stays
    assert [path.name for path in (bench.folder / "saved/checkpoints").iterdir()] == sealed[-1:]
    whole, saved = (Run(bench.folder / name) for name in ("whole", "saved"))
    assert records(saved) == records(whole)
    assert (saved.model / "model.safetensors").read_bytes() == (
        whole.model / "model.safetensors"
    ).read_bytes()


def test_checkpoints_that_take_long_are_fewer(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, sealed: list[str]
):
    """Each takes a tenth of the clock's minute: 19 tenths lie between two, not the asked half."""
    minutes = iter(range(10**6))
    monkeypatch.setattr(interruption, "monotonic", lambda: 60.0 * next(minutes))
    tenths = iter(range(10**6))
    monkeypatch.setattr(interruption, "perf_counter", lambda: 6.0 * next(tenths))
    rl = {"steps": 6, "save_every": 99, "keep_checkpoints": 9, "save_minutes": 0.5}
    bench.run(configure(rl=rl))
    # looks: begun 0, step 1 at 1 (due: saved, at 2), 2 at 3, 3 at 4 (1.9 minutes on: saved, at 5),
    # 4 at 6, 5 at 7 (saved), 6 the last
    assert sealed == ["checkpoint-1", "checkpoint-3", "checkpoint-5", "checkpoint-6"]


def test_saving_takes_a_twentieth_of_the_time_at_most():
    assert wait_s(600, 0) == 600
    assert wait_s(600, 30) == 600  # 30 of 630
    assert wait_s(600, 84) == pytest.approx(1596)  # 84 of 84 + 1596 = 1680


def test_signals_that_were_ignored_are_heard_while_something_can_be_saved():
    """A script starts its background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals(patient=False) as signals:
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.number == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_under_a_launcher_one_notice_may_come_several_times():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with StopSignals(patient=True) as signals:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
        assert signals.number == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)  # not heard either, while it ends in order
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    config = configure(rl={"steps": 3, "save_every": 1})
    save = Trainer._save_optimizer_and_scheduler

    def full_at_two(self: Any, folder: str) -> None:
        if folder.endswith("-2"):
            full()
        save(self, folder)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save_optimizer_and_scheduler", full_at_two)
        with pytest.raises(TrainingError, match="is full: checkpoint-2") as caught:
            bench.run(config)
    assert "resumes from the last checkpoint" in str(caught.value.next_step)
    assert [p.name for p in (bench.folder / "run/checkpoints").iterdir()] == ["checkpoint-1"]
    assert [record["step"] for record in bench.run(config)] == [2, 3]


def test_other_errors_while_saving_stay_what_they_are(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    def broken(self: Any, folder: str) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Trainer, "_save_optimizer_and_scheduler", broken)
    with pytest.raises(PermissionError):
        bench.run(configure(rl={"steps": 1}))


def test_a_refused_run_writes_nothing(bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError):
        bench.run(configure(rollout={"backend": "vllm"}))
    assert not (bench.folder / "run").exists()
