"""The check at step 0 is as strict as the arithmetic allows, and no stricter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sage_cli.errors import TrainingError
from sage_cli.models.load import attach_lora, load_model
from sage_cli.settings.sections.model import LoraSection
from sage_cli.settings.sections.training import SftSection
from sage_cli.store.runs.run import Run
from sage_cli.training.sft import Example, train_sft


def shifted(base: Path, folder: Path, factor: float) -> Path:
    """The base with logits a little off, as coarse arithmetic makes them."""
    model = load_model(base)
    with torch.no_grad():
        model.lm_head.weight.mul_(factor)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("compute_dtype", "accepted", "refused"),
    # a factor of 1.005 moves the completions' log-probabilities by some 3e-3 nats, as bfloat16 was
    # seen to do on a GPU, and others in proportion
    [("float32", 1.0, 1.0005), ("bfloat16", 1.005, 1.3)],
)
def test_the_tolerance_follows_the_arithmetic(
    bench: Any, configure: Any, tmp_path: Path, compute_dtype: str, accepted: float, refused: float
):
    model = {"kind": "pretrained", "tuning": "full", "compute_dtype": compute_dtype}
    config = configure(model=model, rl={"steps": 1})
    (record,) = bench.run(config, "near", reference=shifted(bench.base, tmp_path / "n", accepted))
    assert abs(record["kl/reference"]) < 0.05
    with pytest.raises(TrainingError, match=r"differ .* nats a token \(tolerance"):
        bench.run(config, "far", reference=shifted(bench.base, tmp_path / "f", refused))


def test_the_same_weights_pass_in_every_arithmetic(bench: Any, configure: Any):
    for compute_dtype in ("auto", "float32", "bfloat16"):
        model = {"kind": "pretrained", "tuning": "full", "compute_dtype": compute_dtype}
        (record,) = bench.run(configure(model=model, rl={"steps": 1}), compute_dtype)
        assert record["kl/reference"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_after_warm_up_with_dropout_policy_and_reference_are_one_network(
    bench: Any, configure: Any, tmp_path: Path, tuning: str
):
    """Of an adapter, and of attention's own; under two masks they would be far apart."""
    model = load_model(bench.base, trainable=True)
    if tuning == "lora":
        model = attach_lora(model, LoraSection(dropout=0.1))
    else:
        model.config.attention_dropout = 0.2
        model.save_pretrained(tmp_path / "start")
        model = load_model(tmp_path / "start", trainable=True)
    examples = [Example(f"{a}+{b}=", str(a + b)) for a in range(5) for b in range(5)]
    sft = SftSection(steps=4, batch_size=8, learning_rate=1e-2, optimizer="adamw", warmup_steps=0)
    warm_up = Run(tmp_path / "warm-up")
    train_sft(sft, model, bench.tokenizer, examples, warm_up, lambda _: None)
    kept = {value for value in dropouts(model) if value}
    assert kept == {0.1 if tuning == "lora" else 0.2}  # supervised warm-up keeps it
    policy = load_model(warm_up.model, trainable=True)
    assert {value for value in dropouts(policy) if value} == kept
    settings = {"model": {"kind": "pretrained", "tuning": tuning, "lora": {"dropout": 0.1}}}
    records = bench.run(configure(**settings), model=policy, reference=warm_up.model)
    assert records[0]["kl/reference"] == pytest.approx(0, abs=1e-6)
    assert records[-1]["kl/reference"] != 0
    assert not any(dropouts(policy))


def dropouts(model: Any) -> list[float]:
    """The probabilities of all modules, whichever way they hold them."""
    own = [getattr(module, "attention_dropout", 0.0) for module in model.modules()]
    return own + [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
