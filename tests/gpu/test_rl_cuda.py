"""Training on a CUDA device: the anchor's records are finite, and a guide costs no memory."""

import math

import pytest
import torch
from toy_policy import base, bench, configure, tokenizer

from sage_cli.models.loading import release_memory

__all__ = ["base", "bench", "configure", "tokenizer"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STILL = {"learning_rate": 1e-30}
"""Weights stay as they are: sums that a GPU adds in any order don't reach the next completions."""
BRANCH = {"name": "branch", "tau": 0.5, "rho": 0.5}


def test_a_shaped_anchor_trains(bench, configure):
    records = bench.run(configure(guide=BRANCH, anchor={"beta": 0.1}))
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    for record in records:
        assert all(math.isfinite(record[key]) for key in ("loss", "grad_norm", "kl/shaped"))
    assert records[0]["kl/reference"] == pytest.approx(0, abs=1e-2)  # the policy is its reference
    assert records[0]["guide/q_mean"] != 1


def test_a_guide_that_does_nothing_changes_nothing(bench, configure):
    """Within 1e-4: float32's rounding of a sum over 16 x 12 tokens of at most 5 nats is 6e-5.

    A guide that acts is far beyond: with q = 1.4 the term is beta (1.4 - 1 - log 1.4) = .006.
    """
    runs = {
        name: bench.run(configure(rl=STILL, guide=guide, anchor={"beta": 0.1}), name)
        for name, guide in (("none", {"name": "none"}), ("idle", BRANCH | {"rho": 0.0}))
    }
    assert [r["reward"] for r in runs["idle"]] == [r["reward"] for r in runs["none"]]
    losses = {name: [r["loss"] for r in records] for name, records in runs.items()}
    assert losses["idle"] == pytest.approx(losses["none"], abs=1e-4)


def test_a_guide_takes_no_memory_to_speak_of(bench, configure):
    """By the records: each begins the device's count anew, and the first has the making in it.

    Both train on the same completions, as memory follows their lengths. The guide's tensors are of
    16 x 12 tokens, a KiB each, so that 2 % of some MiB leave room for dozens of them.
    """
    peaks = []
    for name, guide in (("none", {"name": "none"}), ("branch", BRANCH)):
        release_memory()  # what earlier trainings held
        records = bench.run(configure(rl=STILL, guide=guide, anchor={"beta": 0.1}), name)
        peaks.append(max(record["memory/peak_gib"] for record in records[1:]))
    assert peaks[1] <= 1.02 * peaks[0]
