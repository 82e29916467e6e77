"""What is sampled, and that nothing beside a sample decides it."""

import gc
import weakref

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import of_architecture, random_model
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GenerationConfig

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling import prefill
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.choosing import choose, sample_uniforms
from sage_cli.sampling.decoder import TransformersSampler, _Flight
from sage_cli.sampling.prefill import _batches
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters, sample_seed
from sage_cli.settings.sampling import SamplingSection


@pytest.fixture(scope="module")
def make_model(tokenizer):
    """Models in float64: how a processor rounds a product changes none of their texts.

    In float32 about one token in a million depends on it, in bfloat16 many.
    """

    def build(**settings):
        return random_model(tokenizer, **settings).double()

    return build


@pytest.fixture(scope="module")
def model(make_model):
    return make_model()


PROMPTS = ["1+1=", "12*34=?", "x*y<SOLUTION>z", "12*34=!"]
GREEDY = SamplingParameters(0.0, 1.0, 0, 0.0, 36, "</SOLUTION>")
ENDS = (36, ["</SOLUTION>"])
SAMPLED = SamplingParameters(0.8, 0.95, 30, 0.02, 20, "</SOLUTION>")
SEED = 3


def requests(n):
    return [
        SampleRequest(f"p{i}", prompt, tuple(range(n)), SEED) for i, prompt in enumerate(PROMPTS)
    ]


def draw(model, tokenizer, parameters, wanted, batch_rows, graphs=False):
    sampler = TransformersSampler(model, tokenizer, parameters, batch_rows, graphs)
    drawn = list(sampler.sample(wanted))
    by_key = {(completion.problem_id, completion.index): completion for completion in drawn}
    assert len(by_key) == len(drawn)
    return by_key


def without_cache(model, tokenizer, prompt, key, parameters):
    """The same draw with a whole forward pass per token."""
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    seed_1 = np.array([sample_seed(SEED, *key)], dtype=np.uint64)
    text, prompt_length = "", len(ids)
    with torch.inference_mode():
        for step in range(parameters.max_tokens):
            logits_1V = model(torch.tensor([ids])).logits[:, -1]
            token = choose(
                logits_1V, sample_uniforms(seed_1, np.array([step]))[None], parameters
            ).item()
            if token == tokenizer.eos_token_id:
                break
            ids.append(token)
            text = tokenizer.decode(ids[prompt_length:], skip_special_tokens=True)
            if text.endswith("</SOLUTION>"):
                break
    return text


@pytest.mark.parametrize(("batch_rows", "graphs"), [(3, False), (64, False), (3, True), (64, True)])
def test_greedy_text_equals_generate(any_model, tokenizer, generated, batch_rows, graphs):
    drawn = draw(any_model, tokenizer, GREEDY, requests(n=3), batch_rows, graphs)
    assert len(drawn) == 3 * len(PROMPTS)
    for number, prompt in enumerate(PROMPTS):
        text, tokens = generated(any_model, prompt, *ENDS)
        for index in range(3):
            completion = drawn[f"p{number}", index]
            assert (completion.text, completion.tokens) == (text, tokens)
    reasons = {c.finish_reason: c.tokens for c in drawn.values()}
    assert reasons.get("length", GREEDY.max_tokens) == GREEDY.max_tokens


@pytest.mark.parametrize("graphs", [False, True])
def test_sampled_text_equals_a_loop_without_cache(any_model, tokenizer, graphs):
    drawn = draw(any_model, tokenizer, SAMPLED, requests(n=3), 7, graphs)
    for number, prompt in enumerate(PROMPTS):
        texts = set()
        for index in range(3):
            key = (f"p{number}", index)
            expected = without_cache(any_model, tokenizer, prompt, key, SAMPLED)
            assert drawn[key].text == expected
            assert drawn[key].seed == SEED
            texts.add(expected)
        assert len(texts) > 1


def test_an_adapter_is_part_of_the_model(make_model, tokenizer, generated):
    plain = make_model()
    torch.manual_seed(1)
    adapted = get_peft_model(
        make_model(),
        LoraConfig(target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False),
    ).eval()
    drawn = draw(adapted, tokenizer, GREEDY, requests(n=2), batch_rows=8)
    for number, prompt in enumerate(PROMPTS):
        assert drawn[f"p{number}", 1].text == generated(adapted, prompt, *ENDS)[0]
    assert drawn != draw(plain, tokenizer, GREEDY, requests(n=2), batch_rows=8)


def test_a_stop_text_of_several_tokens_ends_the_completion(model, tokenizer):
    free = SamplingParameters(1.0, 1.0, 0, 0.0, 30, None)
    long = draw(model, tokenizer, free, requests(n=12), batch_rows=64)
    stop = max(long.values(), key=lambda completion: completion.tokens).text[9:12]
    stopping = SamplingParameters(1.0, 1.0, 0, 0.0, 30, stop)
    stopped = draw(model, tokenizer, stopping, requests(n=12), batch_rows=64)
    ended = 0
    for key, completion in stopped.items():
        at = long[key].text.find(stop)
        ended += at >= 0
        assert completion.text == (long[key].text[: at + len(stop)] if at >= 0 else long[key].text)
        assert completion.finish_reason == ("stop" if at >= 0 else long[key].finish_reason)
    assert ended > 0


def test_the_model_attends_as_before_once_sampling_ends_early(model, tokenizer):
    before = model.config._attn_implementation
    completions = TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2))
    next(iter(completions))
    completions.close()
    assert model.config._attn_implementation == before


def test_what_the_loop_cannot_compute_is_refused(make_model, tokenizer):
    sliding = make_model(use_sliding_window=True, sliding_window=4, max_window_layers=0)
    with pytest.raises(SamplingError, match="windows or chunks of 4 tokens"):
        draw(sliding, tokenizer, GREEDY, requests(n=1), batch_rows=4)
    empty = [SampleRequest("p", "", (0,))]
    with pytest.raises(SamplingError, match="empty"):
        draw(make_model(), tokenizer, GREEDY, empty, batch_rows=4)


class Counting:
    """Counts the rows of each forward pass of a model."""

    def __init__(self, model):
        self.rows = []
        self.hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _, __, given):
        self.rows.append(len(given["input_ids"]))


def test_samples_that_have_drawn_the_same_are_computed_once(make_model, tokenizer):
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
def test_no_forward_pass_has_more_rows_than_asked_for(make_model, tokenizer, batch_rows):
    model = make_model()
    hot = SamplingParameters(3.0, 1.0, 0, 0.0, 12, "</SOLUTION>")  # samples part at once
    expected = draw(model, tokenizer, hot, requests(n=12), batch_rows=500)
    counting = Counting(model)
    assert draw(model, tokenizer, hot, requests(n=12), batch_rows) == expected
    assert max(counting.rows) == batch_rows


def test_a_fixed_memory_changes_no_text(model, tokenizer):
    hot = SamplingParameters(1.5, 1.0, 0, 0.0, 30, "</SOLUTION>")
    expected = draw(model, tokenizer, hot, requests(n=20), batch_rows=500)
    assert draw(model, tokenizer, hot, requests(n=20), 70, graphs=True) == expected


def test_a_fixed_memory_has_two_numbers_of_rows_and_keeps_an_autocast(tokenizer):
    """Without the cache of casts, which graphs would read where it no longer holds them."""
    model, passes = random_model(tokenizer), []
    hot = SamplingParameters(1.5, 1.0, 0, 0.0, 30, "</SOLUTION>")

    def note(_, __, given):
        cached, type_ = torch.is_autocast_cache_enabled(), torch.get_autocast_dtype("cpu")
        passes.append((len(given["input_ids"]), torch.is_autocast_enabled("cpu"), type_, cached))

    model.register_forward_pre_hook(note, with_kwargs=True)
    with torch.autocast("cpu", torch.bfloat16):
        drawn = draw(model, tokenizer, hot, requests(n=20), 70, graphs=True)
    assert len(drawn) == 4 * 20
    # four prompts in a pass; then 70 samples and the other 10 have 70 rows or a quarter
    sizes = {(4, True), (17, False), (70, False)}
    assert set(passes) == {(rows, True, torch.bfloat16, cached) for rows, cached in sizes}


def test_passes_over_prompts_are_bounded_in_tokens_and_in_logits(monkeypatch):
    monkeypatch.setattr(prefill, "PREFILL_TOKENS", 12)
    monkeypatch.setattr(prefill, "_MIXED_LOGITS", 6)
    prompts = [(0,) * length for length in (1, 1, 2, 2, 3, 5, 20)]
    passes = {mixed: [[*map(len, b)] for b in _batches(prompts, mixed)] for mixed in (True, False)}
    # a fourth prompt in the first pass would be 4 x 2 logits, 20 beside 5 are 2 x 20 tokens
    assert passes[True] == [[1, 1, 2], [2, 3], [5], [20]]
    assert passes[False] == [[1, 1], [2, 2], [3], [5], [20]]


def test_little_memory_is_in_use_beside_a_fixed_one(model, tokenizer, monkeypatch):
    """Rows are planned for one: prompts go, and rows that part are copied by eighths."""
    copies, prompts = [], []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            copies.append(result.numel() if function is torch.ops.aten.index.Tensor else 0)
            return result

    monkeypatch.setattr(_Flight, "drop_ended", lambda flight: prompts.append(len(flight.prompts)))
    completions = TransformersSampler(model, tokenizer, SAMPLED, 64, True).sample(requests(n=16))
    with Copies():
        next(completions)
    assert prompts[0] == 1  # the last, with which the next batch may begin
    assert max(copies) == 2 * 8 * 4 * 8 * 8  # layers, rows of 64, heads, columns of 27, numbers


def test_requests_of_several_seeds_and_the_same_prompt_share_its_reading(make_model, tokenizer):
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


def test_token_ids_are_those_drawn_with_the_end_of_sequence(model, tokenizer):
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


def test_threads_are_fewer_while_a_small_model_samples(model, tokenizer, monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        completions = TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2))
        next(completions)
        assert torch.get_num_threads() == 1
        completions.close()
        assert torch.get_num_threads() == 2
        monkeypatch.setattr("sage_cli.sampling.resources.PARAMETERS_PER_THREAD", 100)
        next(TransformersSampler(model, tokenizer, SAMPLED).sample(requests(n=2)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_closed_sampler_holds_no_model_and_says_so(make_model, tokenizer):
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


def test_only_the_ends_of_a_models_generation_config_are_taken(make_model, tokenizer, tmp_path):
    """Its sampling settings contradict ours and have no effect; where it ends is the model's."""
    model = make_model()
    free = SamplingParameters(1.0, 1.0, 0, 0.0, 24, None)
    before = draw(model, tokenizer, free, requests(n=8), batch_rows=64)
    # a token that one of the texts holds, and doesn't end with
    other = next(row.token_ids[5] for row in before.values() if row.tokens > 6 and row.token_ids)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.2,
        repetition_penalty=1.3,
        top_k=5,
        top_p=0.5,
        eos_token_id=[tokenizer.eos_token_id, other],
    )
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


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3-images"])
def test_a_prompt_beyond_the_context_is_refused_and_the_others_are_sampled(name, tokenizer):
    model = of_architecture(name, tokenizer, max_position_embeddings=32)
    requests = [
        SampleRequest("long", "1" * 25, (0, 1)),  # 25 + 8 tokens are one more than 32
        SampleRequest("fits", "1" * 24, (0, 1)),
        SampleRequest("longer", "1" * 40, (0,)),
    ]
    sampled = []
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 8, None)
    sampler = TransformersSampler(model, tokenizer, parameters)
    with pytest.raises(RefusedPromptsError, match="more than the context of 32") as refusal:
        sampled.extend(completion.problem_id for completion in sampler.sample(requests))
    assert sampled == ["fits", "fits"]
    assert set(refusal.value.reasons) == {"long", "longer"}
