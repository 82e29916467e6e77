"""What a LoRA policy hands to the rollout engine, and what that leaves behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from trl.generation.vllm_generation import VLLMGeneration

from sage_cli.errors import TrainingError
from sage_cli.models.load import attach_lora, load_model
from sage_cli.settings.sections.model import LoraSection
from sage_cli.training.rollouts import weight_sync
from sage_cli.training.rollouts.weight_sync import adapted_layers, merge_beside

SYNCS = 200


class Engine:
    """What vLLM is to TRL's weight sync: it is told weights by name, and keeps the last."""

    def __init__(self) -> None:
        self.weights: dict[str, torch.Tensor] = {}
        model = SimpleNamespace(load_weights=lambda pairs: self.weights.update(dict(pairs)))
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

    def reset_prefix_cache(self) -> None: ...


def generation(model: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """TRL's own, around an engine that isn't vLLM."""

    def with_engine(self: Any) -> None:
        self.llm = Engine()

    monkeypatch.setattr(VLLMGeneration, "_init_vllm", with_engine)
    return VLLMGeneration(model, Accelerator(cpu=True), None)


def coarse(base: Any) -> Any:
    """The toy policy in bfloat16, with an adapter in float32 as TRL trains it."""
    model = attach_lora(load_model(base, dtype="bfloat16"), LoraSection(), seed=1)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.float()
    return model


def frozen(model: Any) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in model.named_parameters() if "lora_" not in n}


def move(model: Any, step: int) -> None:
    """Another adapter at every step."""
    generator = torch.Generator().manual_seed(step)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(std=0.1, generator=generator)


def syncs(model: Any, monkeypatch: pytest.MonkeyPatch, *, beside: bool) -> Any:
    made = generation(model, monkeypatch)
    if beside:
        merge_beside(made)
    for step in range(SYNCS):
        move(model, step)
        made.sync_weights()
    return made.llm


def test_200_syncs_leave_the_base_as_it_was_to_the_bit(base: Any, monkeypatch: pytest.MonkeyPatch):
    model = coarse(base)
    before = frozen(model)
    engine = syncs(model, monkeypatch, beside=True)
    after = frozen(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    for name, layer in adapted_layers(model).items():  # W + 2 B A: alpha 16 of rank 8
        b, a = layer.lora_B["default"].weight, layer.lora_A["default"].weight
        expected = (layer.base_layer.weight.float() + 2 * b @ a).bfloat16()
        assert torch.equal(engine.weights[name], expected), name
        assert not torch.equal(engine.weights[name], layer.base_layer.weight), name


def test_without_it_the_base_moves(base: Any, monkeypatch: pytest.MonkeyPatch):
    """What the test above is there for; and both hand over the same names."""
    model, other = coarse(base), coarse(base)
    before = frozen(model)
    theirs = syncs(model, monkeypatch, beside=False)
    after = frozen(model)
    assert not all(torch.equal(after[name], before[name]) for name in before)
    ours = syncs(other, monkeypatch, beside=True)
    assert ours.weights.keys() == theirs.weights.keys()
    unadapted = set(ours.weights) - set(adapted_layers(other))
    assert all(torch.equal(ours.weights[name], theirs.weights[name]) for name in unadapted)


def test_a_policy_without_an_adapter_is_handed_over_as_trl_does_it(
    base: Any, monkeypatch: pytest.MonkeyPatch
):
    model = load_model(base)
    made = generation(model, monkeypatch)
    merge_beside(made)
    made.sync_weights()
    assert made.llm.weights.keys() == dict(model.named_parameters()).keys()


def test_an_adapter_that_is_not_plain_lora_is_refused(base: Any, monkeypatch: pytest.MonkeyPatch):
    model = get_peft_model(load_model(base), LoraConfig(target_modules=["q_proj"], use_dora=True))
    with pytest.raises(TrainingError, match=r"plain LoRA.*q_proj"):
        merge_beside(generation(model, monkeypatch))


def test_a_release_of_trl_that_merges_elsewhere_is_refused(
    base: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(weight_sync.inspect, "getsource", lambda _: "def other(self): ...")
    with pytest.raises(TrainingError, match="release of TRL"):
        merge_beside(generation(coarse(base), monkeypatch))
