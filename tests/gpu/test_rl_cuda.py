"""Training on a CUDA device: the anchor's records are finite, and a guide costs no memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from toy_policy import base, bench, configure, tokenizer

from sage_cli.training.hardware import release_memory

__all__ = ["base", "bench", "configure", "tokenizer"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BRANCH = {"name": "branch", "tau": 0.5, "rho": 0.5}


def test_a_shaped_anchor_trains(bench: Any, configure: Any) -> None:
    records = bench.run(configure(guide=BRANCH, anchor={"beta": 0.1}))
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    for record in records:
        assert all(math.isfinite(record[key]) for key in ("loss", "grad_norm", "kl/shaped"))
    assert records[0]["kl/reference"] == pytest.approx(0, abs=1e-2)  # the policy is its reference
    assert records[0]["guide/q_mean"] != 1


def test_a_guide_that_does_nothing_changes_nothing(bench: Any, configure: Any) -> None:
    none = bench.run(configure(anchor={"beta": 0.1}), "none")
    idle = bench.run(configure(guide=BRANCH | {"rho": 0.0}, anchor={"beta": 0.1}), "idle")
    assert [r["reward"] for r in idle] == [r["reward"] for r in none]
    assert [r["loss"] for r in idle] == pytest.approx([r["loss"] for r in none], abs=1e-6)


def test_a_guide_takes_no_memory_to_speak_of(bench: Any, configure: Any) -> None:
    """By the records: each begins the device's count anew, and the first has the making in it."""
    peaks = []
    for name, guide in (("none", {"name": "none"}), ("branch", BRANCH)):
        release_memory()  # what earlier trainings held
        records = bench.run(configure(guide=guide, anchor={"beta": 0.1}), name)
        peaks.append(max(record["memory/peak_gib"] for record in records[1:]))
    assert peaks[1] <= 1.02 * peaks[0]
