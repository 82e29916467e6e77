"""What products are computed in, and which optimiser a machine has."""

from contextlib import nullcontext

import pytest
import torch

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.training import hardware
from sage_cli.training.hardware import OPTIMIZERS, precision, require_hardware, require_optimizer


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
