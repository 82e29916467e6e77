"""Too little memory, disk or machine: said plainly, the last good checkpoint kept."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Trainer

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.training.resource_errors import fitting_micro_batch, memory_explained


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    config = configure(rl={"steps": 3, "save_every": 1})
    save = Trainer._save_optimizer_and_scheduler

    def full_at_two(self: Any, folder: str) -> None:
        if folder.endswith("-2"):
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self, folder)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save_optimizer_and_scheduler", full_at_two)
        with pytest.raises(TrainingError, match="is full: checkpoint-2") as caught:
            bench.run(config)
    assert "goes on from the last checkpoint" in str(caught.value.next_step)
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


def test_the_micro_batch_that_fits_by_hand():
    # 100 bytes, 20 of weights: 8 completions needed more than 80, and 70 are to be used: 7
    assert fitting_micro_batch(8, resident=20, peak=100, total=100) == 7
    # 8 completions took 4 x 80 above the weights: 70 / 40 = 1
    assert fitting_micro_batch(8, resident=20, peak=340, total=100) == 1
    assert fitting_micro_batch(1, resident=99, peak=100, total=100) == 1


def test_out_of_memory_names_the_keys(monkeypatch: pytest.MonkeyPatch):
    gib = 2**30
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 80 * gib)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80 * gib)
    )
    with (
        pytest.raises(TrainingError, match="80 GiB don't hold 8 completions of up to 99") as caught,
        memory_explained(8, 99),
    ):
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB")
    assert "rl.micro_batch=7" in str(caught.value.next_step)


def test_a_refused_run_writes_nothing(bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError):
        bench.run(configure(rollout={"backend": "vllm"}))
    assert not (bench.folder / "run").exists()
