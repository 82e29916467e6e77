"""Sampling on a CUDA device whose memory runs out: rows are halved, samples stay what they are."""

import logging

import pytest
import torch
from random_model import random_model

from sage_cli.models.scratch import character_tokenizer
from sage_cli.sampling import decoder
from sage_cli.sampling.attention import free_bytes
from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
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
    model = random_model(tokenizer, hidden_size=256, num_hidden_layers=4).to("cuda")
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
