"""On a CUDA device: records are finite, a guide costs no memory, a sampler halves its rows."""

import logging
import math

import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import random_model
from toy_policy import base, bench, configure, tokenizer

from sage_cli.models.loading import release_memory
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.sampling import decoder
from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.sampling.resources import free_bytes
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

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


PARAMETERS = SamplingParameters(1.0, 1.0, 0, 0.0, 512, None)
REQUESTS = [SampleRequest(f"p{i}", f"{i}+{i}=", tuple(range(64)), 5) for i in range(8)]
ROOM_BYTES = 400 * 2**20


@pytest.fixture
def little_memory():
    """So much memory and no more for what is allocated from here on."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    share = (torch.cuda.memory_reserved() + ROOM_BYTES) / total
    torch.cuda.set_per_process_memory_fraction(share)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_rows_are_halved_where_memory_really_runs_out(little_memory, monkeypatch, caplog):
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "max_position_embeddings": 1024}
    model = random_model(tokenizer, **sizes).to("cuda")
    # as if memory had been free when it was asked, and taken by another process since
    monkeypatch.setattr(decoder, "fitting_rows", lambda *_: None)
    sampler = TransformersSampler(model, tokenizer, PARAMETERS, 512)
    with caplog.at_level(logging.WARNING):
        drawn = list(sampler.sample(REQUESTS))
    assert len({(one.problem_id, one.index) for one in drawn}) == len(drawn) == 512
    assert "memory ran out" in caplog.text


def test_a_device_tells_what_is_free():
    free = free_bytes(torch.device("cuda"))
    assert free is not None
    assert 0 < free <= torch.cuda.get_device_properties(0).total_memory


def tokens(model, tokenizer, graphs):
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 40, None)
    rows = TransformersSampler(model, tokenizer, parameters, 100, graphs).sample(REQUESTS)
    return {(row.problem_id, row.index): row.token_ids for row in rows}


def test_recorded_steps_give_the_tokens_of_steps_that_are_launched(monkeypatch):
    """Also after the adapter's weights have changed, which a graph reads where they lay."""
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    adapter = LoraConfig(target_modules=["q_proj", "up_proj"], init_lora_weights=False)
    model = get_peft_model(random_model(tokenizer), adapter).to("cuda").eval()
    replays = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda g: (replays.append(1), replay(g)))
    texts = []
    for _ in range(2):
        launched, recorded = (tokens(model, tokenizer, graphs) for graphs in (False, True))
        # float32's rounding moves a probability by 1e-6 and so one of 20,000 tokens at most
        assert sum(recorded[key] == launched[key] for key in launched) >= 510
        texts.append(recorded)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.mul_(-1)
    assert texts[0] != texts[1]
    assert len(replays) > 200


def test_a_model_that_waits_for_the_gpu_is_sampled_and_its_memory_is_given_back(caplog):
    """As experts may: torch would leave a recording that failed half ended."""
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    model = random_model(tokenizer).to("cuda")
    launched, stream = tokens(model, tokenizer, graphs=False), torch.cuda.current_stream()
    model.lm_head.register_forward_pre_hook(lambda *_: torch.cuda.current_stream().synchronize())
    with caplog.at_level(logging.INFO):
        waiting = tokens(model, tokenizer, graphs=True)
    assert "aren't recorded" in caplog.text
    assert sum(waiting[key] == launched[key] for key in launched) >= 510
    assert torch.cuda.current_stream() == stream
    torch.ones(2**28, dtype=torch.uint8, device="cuda")
    release_memory()
    assert torch.cuda.memory_reserved() < 2**28
