"""Too little disk or machine: said plainly, the last good checkpoint kept."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import torch
from transformers import Trainer

from sage_cli.errors import ConfigurationError, TrainingError


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
