"""The decoding loop against transformers' own `generate` and against a loop without any cache."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig, PreTrainedTokenizerBase

from sage_cli.errors import SamplingError
from sage_cli.sampling.decoder import choose, uniforms
from sage_cli.sampling.sampler import (
    SampleRequest,
    SamplerSetup,
    SamplingParameters,
    build_sampler,
    sample_seed,
)
from sage_cli.sampling.transformers_sampler import TransformersSampler
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.sample_parts import Completion

PROMPTS = ["1+1=", "12*34=?", "x*y<SOLUTION>z", "12*34=!"]
GREEDY = SamplingParameters(0.0, 1.0, 0, 0.0, 36, "</SOLUTION>")
SAMPLED = SamplingParameters(0.8, 0.95, 30, 0.02, 20, "</SOLUTION>")
SEED = 3


def requests(n: int) -> list[SampleRequest]:
    return [
        SampleRequest(f"p{i}", prompt, tuple(range(n)), SEED) for i, prompt in enumerate(PROMPTS)
    ]


def draw(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    parameters: SamplingParameters,
    wanted: Sequence[SampleRequest],
    batch_rows: int,
) -> dict[tuple[str, int], Completion]:
    sampler = TransformersSampler(model, tokenizer, parameters, batch_rows)
    drawn = list(sampler.sample(wanted))
    by_key = {(completion.problem_id, completion.index): completion for completion in drawn}
    assert len(by_key) == len(drawn)
    return by_key


def generated(model: Any, tokenizer: PreTrainedTokenizerBase, prompt: str) -> tuple[str, int]:
    """Text and number of tokens by transformers' own greedy loop."""
    ids_1T = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    stop = tokenizer.convert_tokens_to_ids("</SOLUTION>")
    output_1T = model.generate(
        ids_1T,
        attention_mask=torch.ones_like(ids_1T),
        do_sample=False,
        max_new_tokens=GREEDY.max_tokens,
        eos_token_id=[tokenizer.eos_token_id, stop],
    )
    new_T = output_1T[0, ids_1T.shape[1] :]
    return tokenizer.decode(new_T, skip_special_tokens=True), len(new_T)


def without_cache(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    key: tuple[str, int],
    parameters: SamplingParameters,
) -> str:
    """The same draw with a whole forward pass per token."""
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    seed_1 = np.array([sample_seed(SEED, *key)], dtype=np.uint64)
    text, prompt_length = "", len(ids)
    with torch.inference_mode():
        for step in range(parameters.max_tokens):
            logits_1V = model(torch.tensor([ids])).logits[:, -1]
            token = choose(logits_1V, uniforms(seed_1, np.array([step]))[None], parameters).item()
            if token == tokenizer.eos_token_id:
                break
            ids.append(token)
            text = tokenizer.decode(ids[prompt_length:], skip_special_tokens=True)
            if text.endswith("</SOLUTION>"):
                break
    return text


@pytest.mark.parametrize("batch_rows", [3, 64])
def test_greedy_text_equals_generate(
    any_model: Any, tokenizer: PreTrainedTokenizerBase, batch_rows: int
) -> None:
    drawn = draw(any_model, tokenizer, GREEDY, requests(n=3), batch_rows)
    assert len(drawn) == 3 * len(PROMPTS)
    for number, prompt in enumerate(PROMPTS):
        text, tokens = generated(any_model, tokenizer, prompt)
        for index in range(3):
            completion = drawn[f"p{number}", index]
            assert (completion.text, completion.tokens) == (text, tokens)
    reasons = {c.finish_reason: c.tokens for c in drawn.values()}
    assert reasons.get("length", GREEDY.max_tokens) == GREEDY.max_tokens


def test_sampled_text_equals_a_loop_without_cache(
    any_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    drawn = draw(any_model, tokenizer, SAMPLED, requests(n=3), batch_rows=7)
    for number, prompt in enumerate(PROMPTS):
        texts = set()
        for index in range(3):
            key = (f"p{number}", index)
            expected = without_cache(any_model, tokenizer, prompt, key, SAMPLED)
            assert drawn[key].text == expected
            assert drawn[key].seed == SEED
            texts.add(expected)
        assert len(texts) > 1


def test_a_sample_does_not_depend_on_what_is_drawn_beside_it(
    model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    everything = draw(model, tokenizer, SAMPLED, requests(n=6), batch_rows=24)
    one = [SampleRequest("p3", PROMPTS[3], (5,), SEED)]
    alone = draw(model, tokenizer, SAMPLED, one, batch_rows=24)
    assert alone["p3", 5] == everything["p3", 5]
    reordered = draw(model, tokenizer, SAMPLED, requests(n=6)[::-1], batch_rows=5)
    assert reordered == everything


def test_an_adapter_is_part_of_the_model(
    make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    plain = make_model()
    torch.manual_seed(1)
    adapted = get_peft_model(
        make_model(),
        LoraConfig(target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False),
    ).eval()
    drawn = draw(adapted, tokenizer, GREEDY, requests(n=2), batch_rows=8)
    for number, prompt in enumerate(PROMPTS):
        assert drawn[f"p{number}", 1].text == generated(adapted, tokenizer, prompt)[0]
    assert drawn != draw(plain, tokenizer, GREEDY, requests(n=2), batch_rows=8)


def test_a_stop_text_of_several_tokens_ends_the_completion(
    model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    free = SamplingParameters(1.0, 1.0, 0, 0.0, 30, None)
    long = draw(model, tokenizer, free, requests(n=12), batch_rows=64)
    stop = max(long.values(), key=lambda completion: completion.tokens).text[9:12]
    stopped = draw(
        model,
        tokenizer,
        SamplingParameters(1.0, 1.0, 0, 0.0, 30, stop),
        requests(n=12),
        batch_rows=64,
    )
    ended = 0
    for key, completion in stopped.items():
        at = long[key].text.find(stop)
        ended += at >= 0
        assert completion.text == (long[key].text[: at + len(stop)] if at >= 0 else long[key].text)
        assert completion.finish_reason == ("stop" if at >= 0 else long[key].finish_reason)
    assert ended > 0


def test_the_model_attends_as_before_once_sampling_ends_early(
    model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    before = model.config._attn_implementation
    completions = TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2))
    next(iter(completions))
    completions.close()  # type: ignore[attr-defined]
    assert model.config._attn_implementation == before


def test_what_the_loop_cannot_compute_is_refused(
    make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    sliding = make_model(use_sliding_window=True, sliding_window=4, max_window_layers=0)
    with pytest.raises(SamplingError, match="windows or chunks of 4 tokens"):
        draw(sliding, tokenizer, GREEDY, requests(n=1), batch_rows=4)
    empty = [SampleRequest("p", "", (0,))]
    with pytest.raises(SamplingError, match="empty"):
        draw(make_model(), tokenizer, GREEDY, empty, batch_rows=4)


class Counting:
    """Counts the rows of each forward pass of a model."""

    def __init__(self, model: Any) -> None:
        self.rows: list[int] = []
        self.hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _: Any, __: Any, given: dict[str, Any]) -> None:
        self.rows.append(len(given["input_ids"]))


def test_samples_that_have_drawn_the_same_are_computed_once(
    make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model()
    counting = Counting(model)
    drawn = draw(model, tokenizer, GREEDY, requests(n=16), batch_rows=64)
    assert len(drawn) == 64
    # Prompts of one length (4; 5; 8 and 8) are read together; from then on all 16 samples of a
    # prompt are one row.
    assert counting.rows[:3] == [1, 1, 2]
    assert max(counting.rows[3:]) == 4
    counting.rows.clear()
    draw(model, tokenizer, SAMPLED, requests(n=16), batch_rows=64)
    assert max(counting.rows) > 16


@pytest.mark.parametrize("batch_rows", [1, 6, 17])
def test_no_forward_pass_has_more_rows_than_asked_for(
    make_model: Any, tokenizer: PreTrainedTokenizerBase, batch_rows: int
) -> None:
    model = make_model()
    hot = SamplingParameters(3.0, 1.0, 0, 0.0, 12, "</SOLUTION>")  # samples part at once
    expected = draw(model, tokenizer, hot, requests(n=12), batch_rows=500)
    counting = Counting(model)
    assert draw(model, tokenizer, hot, requests(n=12), batch_rows) == expected
    assert max(counting.rows) == batch_rows


def test_requests_of_several_seeds_and_the_same_prompt_share_its_reading(
    make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model()
    counting = Counting(model)
    sampler = TransformersSampler(model, tokenizer, SAMPLED, batch_rows=64)
    wanted = [SampleRequest("p", PROMPTS[0], (0, 1, 2), seed) for seed in (0, 1, 2)]
    drawn = {(row.seed, row.index): row for row in sampler.sample(wanted)}
    assert counting.rows[0] == 1
    assert len(counting.rows) <= SAMPLED.max_tokens
    assert drawn.keys() == {(seed, index) for seed in (0, 1, 2) for index in (0, 1, 2)}
    for seed in (0, 1, 2):
        alone = TransformersSampler(model, tokenizer, SAMPLED).sample([wanted[seed]])
        assert {(row.seed, row.index): row for row in alone}.items() <= drawn.items()


def test_token_ids_are_those_drawn_with_the_end_of_sequence(
    model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    free = SamplingParameters(1.3, 1.0, 0, 0.0, 40, None)
    drawn = draw(model, tokenizer, free, requests(n=12), batch_rows=64)
    ended = [row for row in drawn.values() if row.finish_reason == "stop"]
    assert ended
    for row in drawn.values():
        assert row.token_ids is not None
        assert len(row.token_ids) == row.tokens
        assert tokenizer.decode(row.token_ids, skip_special_tokens=True) == row.text
        eos = tokenizer.eos_token_id
        assert (row.token_ids[-1] == eos) == (row.finish_reason == "stop")
        assert eos not in row.token_ids[:-1]


def test_threads_are_fewer_while_a_small_model_samples(
    model: Any, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        completions = TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2))
        next(completions)
        assert torch.get_num_threads() == 1
        completions.close()  # type: ignore[attr-defined]
        assert torch.get_num_threads() == 2
        monkeypatch.setattr("sage_cli.sampling.attention.PARAMETERS_PER_THREAD", 100)
        next(TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_closed_sampler_holds_no_model_and_says_so(
    make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model()
    alive = weakref.ref(model)
    sampler = TransformersSampler(model, tokenizer, SAMPLED)
    assert len(list(sampler.sample(requests(n=1)))) == len(PROMPTS)
    del model
    sampler.close()
    gc.collect()
    assert alive() is None
    with pytest.raises(SamplingError, match="closed"):
        list(sampler.sample(requests(n=1)))


def test_only_the_ends_of_a_models_generation_config_are_taken(
    make_model: Any, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Its sampling settings contradict ours and have no effect; where it ends is the model's."""
    model = make_model()
    free = SamplingParameters(1.0, 1.0, 0, 0.0, 24, None)
    before = draw(model, tokenizer, free, requests(n=8), batch_rows=64)
    # a token that one of the texts holds, and doesn't end with
    other = next(row.token_ids[5] for row in before.values() if row.tokens > 6 and row.token_ids)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.2, repetition_penalty=1.3, top_k=5, top_p=0.5,
        eos_token_id=[tokenizer.eos_token_id, other],
    )  # fmt: skip
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    section = SamplingSection(backend="transformers")
    with build_sampler(SamplerSetup(tmp_path, free, section)) as sampler:
        after = {(row.problem_id, row.index): row for row in sampler.sample(requests(n=8))}
    assert after.keys() == before.keys()
    shortened = 0
    for key, row in before.items():
        ids = list(row.token_ids or ())
        expected = ids[: ids.index(other) + 1] if other in ids else ids
        assert list(after[key].token_ids or ()) == expected
        shortened += len(expected) < len(ids)
    assert shortened
