"""The check at step 0 is as strict as the arithmetic allows, and no stricter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sage_cli.errors import TrainingError
from sage_cli.models.load import load_model


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
