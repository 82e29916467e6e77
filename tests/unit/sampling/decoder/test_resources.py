"""Memory that runs out: rows are halved, samples stay what they are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from sage_cli.errors import SamplingError
from sage_cli.sampling.decoder import loop as decoder
from sage_cli.sampling.decoder import resources, transformers_sampler
from sage_cli.sampling.decoder.attention import MemoryModel
from sage_cli.sampling.decoder.cohort import Cohort
from sage_cli.sampling.decoder.transformers_sampler import TransformersSampler
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.store.samples.completion import Completion

SAMPLED = SamplingParameters(1.0, 1.0, 0, 0.0, 16, "</SOLUTION>")
REQUESTS = [SampleRequest(f"p{i}", f"{i}+{i + 1}=", tuple(range(12)), 5) for i in range(4)]
ROWS = 16

Keyed = dict[tuple[str, int], Completion]


def cuda_error() -> RuntimeError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def cpu_error() -> RuntimeError:
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
    )


def draw(model: Any, tokenizer: PreTrainedTokenizerBase) -> Keyed:
    """Every sample once, or this fails."""
    drawn = list(TransformersSampler(model, tokenizer, SAMPLED, ROWS).sample(REQUESTS))
    keyed = {(one.problem_id, one.index): one for one in drawn}
    assert len(keyed) == len(drawn) == 48
    return keyed


@pytest.fixture
def whole(model: Any, tokenizer: PreTrainedTokenizerBase) -> Keyed:
    """The samples as they are while there is memory."""
    return draw(model, tokenizer)


def failing(method: Callable[..., Any], error: RuntimeError, *calls: int) -> Callable[..., Any]:
    """`method`, which fails with `error` at the numbered calls."""
    count = 0

    def tried(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count in calls:
            raise error
        return method(*args, **kwargs)

    return tried


@pytest.mark.parametrize("error", [cuda_error(), cpu_error()])
def test_rows_are_halved_and_nothing_is_lost(
    error: RuntimeError,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    whole: Keyed,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # once while prompts are read, twice in the midst of drawing
    monkeypatch.setattr(MemoryModel, "logits", failing(MemoryModel.logits, error, 1, 7, 13))
    with caplog.at_level(logging.WARNING):
        assert draw(model, tokenizer) == whole
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" with ")[1] for line in said] == [
        f"{rows} rows at once from here on" for rows in (8, 4, 2)
    ]


def test_what_a_step_had_drawn_when_memory_ran_out_is_drawn_again(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    whole: Keyed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # some cohorts have given up their finished samples by then
    monkeypatch.setattr(Cohort, "_settle", failing(Cohort._settle, cuda_error(), 6, 30))
    assert draw(model, tokenizer) == whole


def test_another_error_is_not_taken_for_it(
    model: Any, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = RuntimeError("CUDA error: device-side assert triggered")
    monkeypatch.setattr(MemoryModel, "logits", failing(MemoryModel.logits, wrong, 3))
    with pytest.raises(RuntimeError, match="device-side assert"):
        draw(model, tokenizer)


def test_memory_without_room_for_one_completion_is_said(
    model: Any, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    always = failing(MemoryModel.logits, cuda_error(), *range(1, 99))
    monkeypatch.setattr(MemoryModel, "logits", always)
    with pytest.raises(SamplingError, match="one completion at a time") as no:
        draw(model, tokenizer)
    assert "tensor_parallel_size" in str(no.value.next_step)


def test_rows_are_as_many_as_free_memory_holds(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    vocabulary = model.config.vocab_size
    # keys and values of 10 tokens: 2 x 2 layers x 4 heads x 8 numbers of four bytes, and a layer's
    # once more; logits of 4 + 4 + 4 + 8 bytes
    row = 10 * 2 * 2 * 4 * 8 * 4 * 3 // 2 + vocabulary * 20
    monkeypatch.setattr(resources, "free_bytes", lambda device: 7 * row)
    assert resources.fitting_rows(model, 4, 6) == 6  # nine tenths of seven
    monkeypatch.setattr(resources, "free_bytes", lambda device: 3)
    assert resources.fitting_rows(model, 4, 6) == 1
    monkeypatch.setattr(resources, "free_bytes", lambda device: None)
    assert resources.fitting_rows(model, 4, 6) is None


def test_a_small_memory_is_used_from_the_start(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    whole: Keyed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    class Watched(decoder._Flight):
        def clear(self, rows: int) -> None:
            seen.append(rows)
            super().clear(rows)

    monkeypatch.setattr(decoder, "_Flight", Watched)
    monkeypatch.setattr(transformers_sampler, "fitting_rows", lambda *_: 3)
    assert draw(model, tokenizer) == whole
    assert seen == [3]


def test_this_machine_tells_what_is_free() -> None:
    free = resources.free_bytes(torch.device("cpu"))
    assert free is None or free > 2**20
