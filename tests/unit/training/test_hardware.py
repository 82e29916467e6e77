"""What a machine computes in, which optimiser it has, and that a lack of memory is explained."""

import errno
import os
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, OutOfMemoryError
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.run import Run
from sage_cli.training import hardware
from sage_cli.training.hardware import OPTIMIZERS, precision, require_hardware, require_optimizer
from sage_cli.training.interruption import LOADING, memory_explained
from sage_cli.training.rl import memory_need
from sage_cli.training.rl_trainer import RlTrainer
from sage_cli.training.sft import sft_memory_need


def on(monkeypatch, *, gpu, bf16=False):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    # an old GPU emulates it
    supported = lambda including_emulation=True: bf16 or including_emulation  # noqa: E731
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")


@pytest.mark.parametrize(
    ("gpu", "has_bf16", "compute_dtype", "bf16"),
    [
        (False, False, "auto", False), (False, False, "bfloat16", True),
        (True, True, "auto", True), (True, True, "float32", False), (True, True, "bfloat16", True),
        (True, False, "auto", False), (True, False, "float32", False),
        (True, False, "bfloat16", "the Some GPU doesn't have it"),
    ],
)  # fmt: skip
def test_products_are_bfloat16_where_asked_or_where_the_gpu_has_it(
    monkeypatch, gpu, has_bf16, compute_dtype, bf16
):
    on(monkeypatch, gpu=gpu, bf16=has_bf16)
    if isinstance(bf16, bool):
        assert precision(compute_dtype) == {"use_cpu": not gpu, "bf16": bf16}
        return
    with pytest.raises(ConfigurationError, match=bf16):
        precision(compute_dtype)


@pytest.mark.parametrize(
    ("gpu", "has_bf16", "settings", "processes", "refusal"),
    [
        (True, False, {}, 1, None),
        (True, True, {"dtype": "bfloat16"}, 1, None),
        (True, False, {"dtype": "bfloat16"}, 1, r"model\.dtype is 'bfloat16', and the Some GPU"),
        (True, False, {"compute_dtype": "bfloat16"}, 1, r"model\.compute_dtype is 'bfloat16'"),
        (True, True, {}, 2, None),
        (True, True, {}, 3, r"3 processes take a GPU each, and .* has 2"),
        (False, False, {}, 3, None),  # CPUs are shared
    ],
)
def test_what_a_gpu_lacks_is_named(monkeypatch, gpu, has_bf16, settings, processes, refusal):
    on(monkeypatch, gpu=gpu, bf16=has_bf16)
    model = PretrainedModel.model_validate(settings)
    with pytest.raises(ConfigurationError, match=refusal) if refusal else nullcontext():
        require_hardware(model, processes)


def test_without_bitsandbytes_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(hardware, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes") as caught:
        require_optimizer("adamw_8bit", "rl.optimizer")
    assert "pip install 'sage-rlvr[8bit]'" in caught.value.next_step
    assert "rl.optimizer=adamw" in caught.value.next_step
    require_optimizer("adamw", "sft.optimizer")  # needs nothing
    assert OPTIMIZERS["adamw"] == "adamw_torch_fused"


def test_the_8_bit_optimiser_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="needs a GPU, and this machine has none"):
        require_optimizer("adamw_8bit", "rl.optimizer")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_optimizer("adamw_8bit", "rl.optimizer")


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
