"""A lack of memory is one panel that says what to change, and the run goes on."""

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sage_cli.config.load import load
from sage_cli.errors import OutOfMemoryError
from sage_cli.store.run import Run
from sage_cli.training.interruption import LOADING, memory_explained
from sage_cli.training.rl import memory_need
from sage_cli.training.rl_trainer import RlTrainer
from sage_cli.training.sft import sft_memory_need

GIB = 2**30


def config(*sets):
    return load(["qwen2.5-math-7b"], sets=sets).config


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Tried to allocate 2.00 GiB\nand more"),
        ValueError("No available memory for the cache blocks."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ],
)
def test_the_gpu_is_named(monkeypatch, tmp_path, error):
    card = SimpleNamespace(total_memory=80 * GIB)
    for name, value in {"is_available": True, "get_device_properties": card}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    need = memory_need(config())
    assert need.use == "8 completions of up to 2,048 tokens at once"
    with (
        pytest.raises(OutOfMemoryError, match="the GPU of 80 GiB can't hold 8 completions") as c,
        memory_explained(need, Run(tmp_path)),
    ):
        raise error
    assert c.value.next_step == "lower rl.micro_batch or rollout.max_tokens"


@pytest.mark.parametrize(
    "take",
    [
        lambda: torch.empty(2**55),
        lambda: np.empty(2**55),
        lambda: _raise(MemoryError()),
        lambda: _raise(RuntimeError("std::bad_alloc")),
        lambda: _raise(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))),
        lambda: _raise(RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)")),
    ],
)
@pytest.mark.parametrize(
    ("need", "use", "settings"),
    [
        (memory_need(config()), "8 completions of up to 2,048 tokens",
         "rl.micro_batch or rollout.max_tokens"),
        (sft_memory_need(config().sft), "1 demonstrations of up to 2,048 tokens",
         "sft.micro_batch or sft.max_length"),
    ],
)  # fmt: skip
def test_without_a_gpu_what_to_lower_is_named(tmp_path, take, need, use, settings):
    with (
        pytest.raises(OutOfMemoryError, match=rf"this machine's memory .* can't hold {use}") as c,
        memory_explained(need, Run(tmp_path)),
    ):
        take()
    assert c.value.next_step == f"lower {settings}"


def _raise(error):
    raise error


def test_other_errors_stay_what_they_are(tmp_path):
    with (
        pytest.raises(ValueError, match="something else"),
        memory_explained(LOADING, Run(tmp_path)),
    ):
        raise ValueError("something else")


def test_a_training_that_ran_out_of_memory_goes_on(bench, configure, monkeypatch):
    config = configure(rl={"steps": 4, "save_every": 2})
    loss = RlTrainer._compute_loss

    def short_of_memory(self, *arguments):
        if self.state.global_step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(RlTrainer, "_compute_loss", short_of_memory)
        with pytest.raises(OutOfMemoryError, match="can't hold 16 completions of up to 12") as c:
            bench.run(config)
    assert "run is saved at step 2, where the same command resumes it" in str(c.value.next_step)
    lighter = configure(rl={"steps": 4, "save_every": 2, "gradient_checkpointing": True})
    assert [record["step"] for record in bench.run(lighter)] == [3, 4]
