"""Rollouts by the sampler: each prompt's own, decided by seeds, from the policy as it stands."""

import pytest
import torch
from toy_policy import weights

from sage_cli.errors import TrainingError
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.sampling import attention, decoder, token_memory
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.model import LoraSection
from sage_cli.settings.rollout import RolloutSection
from sage_cli.store.run import Run
from sage_cli.training.rollouts import sampled_rollouts

TEXTS = ["2*3=?", "17*4=?", "2*3=?", "5*5=?"]


def section(**changed):
    given = {"backend": "builtin", "max_tokens": 12, "min_p": 0.0} | changed
    return SamplingParameters.from_section(RolloutSection.model_validate(given))


@pytest.fixture
def prompts(tokenizer):
    return tokenizer(TEXTS, add_special_tokens=False)["input_ids"]


@pytest.fixture
def model(base):
    return load_model(base, trainable=True)


def test_each_prompt_gets_its_own_completion(model, tokenizer, prompts):
    """Where one token always has nearly all probability, the argmax by a plain forward pass."""
    sharp = section(temperature=1e-4)
    drawn = sampled_rollouts(sharp, 7, tokenizer)(model, prompts, "0:0", 0)
    for prompt, completion in zip(prompts, drawn, strict=True):
        with torch.no_grad():
            logits_TV = model(torch.tensor([prompt + completion])).logits[0]
        likeliest = logits_TV[len(prompt) - 1 : -1].argmax(dim=-1).tolist()
        assert completion == likeliest
        ended = completion[-1] == tokenizer.eos_token_id
        assert ended or len(completion) == 12


def test_seed_batch_and_place_decide(model, tokenizer, prompts):
    draw = sampled_rollouts(section(), 7, tokenizer)
    whole = draw(model, prompts, "3:0", 0)
    assert draw(model, prompts, "3:0", 0) == whole
    # dynamic sampling asks for some of a batch, later for more
    assert draw(model, prompts[:1], "3:0", 0) + draw(model, prompts[1:], "3:0", 1) == whole
    assert whole[0] != whole[2]  # the same prompt twice
    assert draw(model, prompts, "4:0", 0) != whole
    assert draw(model, prompts, "3:1", 0) != whole
    assert draw(model, prompts, "3:0", 4) != whole
    assert sampled_rollouts(section(), 8, tokenizer)(model, prompts, "3:0", 0) != whole


def test_the_first_token_has_the_policys_probabilities(model, tokenizer, prompts):
    """Pearson's statistic over 4,000 draws, tokens that are expected less than 5 times together."""
    count = 4000
    draw = sampled_rollouts(section(max_tokens=1), 1, tokenizer)
    drawn = torch.tensor(draw(model, prompts[:1] * count, "0:0", 0)).flatten()
    with torch.no_grad():
        expected_V = model(torch.tensor(prompts[:1])).logits[0, -1].softmax(dim=-1) * count
    seen_V = torch.bincount(drawn, minlength=len(expected_V)).float()
    rare_V = expected_V < 5
    expected = torch.cat([expected_V[~rare_V], expected_V[rare_V].sum()[None]])
    seen = torch.cat([seen_V[~rare_V], seen_V[rare_V].sum()[None]])
    statistic = ((seen - expected) ** 2 / expected).sum().item()
    freedom = len(expected) - 1
    assert freedom >= 3
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # mean + 4 standard deviations


def test_an_adapters_dropout_is_off_while_it_draws_and_on_again(base, tokenizer, prompts):
    lora = LoraSection(rank=2, dropout=0.5, targets=("q_proj", "v_proj"))
    policy = attach_lora(load_model(base, trainable=True), lora)
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            weight.data.normal_()
    policy.train()
    draw = sampled_rollouts(section(), 7, tokenizer)
    assert draw(policy, prompts, "0:0", 0) == draw(policy, prompts, "0:0", 0)
    assert policy.training
    assert all(module.training for module in policy.modules())


def test_products_in_bfloat16_cast_each_weight_once_and_keep_scores_in_float32(
    base, tokenizer, prompts, monkeypatch
):
    policy = attach_lora(load_model(base), LoraSection(rank=2, targets=("q_proj", "v_proj")))
    before = {name: (w.data_ptr(), w.dtype) for name, w in policy.named_parameters()}
    causal, scored = policy.get_base_model(), set()
    layers = {"up": causal.model.layers[0].mlp.up_proj, "head": causal.lm_head}
    seen = {name: [] for name in layers}
    for name, layer in layers.items():

        def note(module, *_, name=name):
            seen[name].append((module.weight.data_ptr(), module.weight.dtype))

        layer.register_forward_hook(note)
    attend = token_memory.CohortMemory.attend

    def attending(self, layer, *states):
        scored.update(values.dtype for values in states)
        return attend(self, layer, *states)

    monkeypatch.setattr(token_memory.CohortMemory, "attend", attending)
    # rows are counted in the memory that the cast weights leave
    monkeypatch.setattr(decoder, "fitting_rows", lambda *_: note(layers["up"], name="up"))
    with torch.autocast("cpu", torch.bfloat16):
        sampled_rollouts(section(), 7, tokenizer)(policy, prompts, "0:0", 0)
    assert len(seen["up"]) > 4  # a pass for each token, and prompts of two lengths
    assert {dtype for _, dtype in seen["up"]} == {torch.bfloat16}
    assert len(set(seen["up"])) == 1
    assert {dtype for _, dtype in seen["head"]} == scored == {torch.float32}
    assert {name: (w.data_ptr(), w.dtype) for name, w in policy.named_parameters()} == before


def test_a_model_that_the_loop_cannot_compute_is_named(model, tokenizer, prompts, monkeypatch):
    monkeypatch.setattr(attention, "obstacles", lambda *_: iter(["keeps a recurrent state"]))
    draw = sampled_rollouts(section(), 7, tokenizer)
    with pytest.raises(TrainingError, match="keeps a recurrent state") as caught:
        draw(model, prompts, "0:0", 0)
    assert "rollout.backend=transformers" in str(caught.value.next_step)


def test_a_training_draws_by_it_and_a_resumed_one_draws_the_same(bench, configure, tokenizer):
    """DAPO, which draws several times for a batch: no completion of a batch is drawn twice."""
    draw, asked = sampled_rollouts(section(), 7, tokenizer), []

    def heard(model, prompts, batch, drawn):
        asked.append((batch, drawn, len(prompts)))
        return draw(model, prompts, batch, drawn)

    config = configure(rl={"dynamic_sampling": True}, rollout={"backend": "builtin"})
    records = bench.run(config, "whole", sample=heard)
    assert {batch for batch, _, _ in asked} == {"0:0", "1:0", "2:0", "3:0"}
    for step, record in enumerate(records):
        calls = [(drawn, count) for batch, drawn, count in asked if batch == f"{step}:0"]
        ends = [drawn + count for drawn, count in calls]
        assert [0, *ends] == [drawn for drawn, _ in calls] + [record["sampled/completions"]]
    shown = {row["prompt"]: row["gold"] for row in Run(bench.folder / "whole").rollouts.read()}
    assert all(gold == str(eval(prompt.removesuffix("=?"))) for prompt, gold in shown.items())

    bench.resumed(config, "cut", 3, sample=draw)  # the checkpoint of step 2 is the last
    assert weights(bench.folder / "cut/model") == weights(bench.folder / "whole/model")
