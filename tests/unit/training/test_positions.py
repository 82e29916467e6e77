"""Positions in passes: padded rows, shared prompts or apart, against float64 rows alone."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.bloom import BloomConfig
from transformers.models.gpt2 import GPT2Config
from transformers.models.llama import LlamaConfig
from transformers.models.mixtral import MixtralConfig
from trl.trainer.utils import add_fused_lm_head

from sage_cli.models.loading import switch_off_noise
from sage_cli.training.passes import completions_alone, positions_of

SHAPE = {
    "vocab_size": 53,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
LEARNED = GPT2Config(
    vocab_size=53, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0, attn_pdrop=0, embd_pdrop=0,
    initializer_range=0.3,
)  # fmt: skip
ROTARY = LlamaConfig(**SHAPE, initializer_range=0.3)
ALIBI = BloomConfig(
    vocab_size=53, hidden_size=16, n_layer=2, n_head=4, hidden_dropout=0, attention_dropout=0,
    initializer_range=0.3,
)  # fmt: skip
PROMPTS = (7, 3, 3, 5, 7, 3)
"""Tokens of the six rows' prompts; rows of three have the same one."""
COMPLETIONS = (5, 5, 4, 2, 5, 1)
TOLERANCE = 2e-5


def built(config, seed=5):
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config)


def texts():
    """Each row's prompt and completion, without padding."""
    generator = torch.Generator().manual_seed(1)
    prompts = {n: torch.randint(1, 53, (n,), generator=generator).tolist() for n in set(PROMPTS)}
    completions = [torch.randint(1, 53, (n,), generator=generator).tolist() for n in COMPLETIONS]
    return [(prompts[n], row) for n, row in zip(PROMPTS, completions, strict=True)]


def padded():
    ids = torch.zeros(len(PROMPTS), max(PROMPTS) + max(COMPLETIONS), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, completion) in enumerate(texts()):
        place = slice(max(PROMPTS) - len(prompt), max(PROMPTS) + len(completion))
        ids[row, place], mask[row, place] = torch.tensor(prompt + completion), 1
    return ids, mask


def weighted(logps):
    """A sum with another weight for each token, row by row."""
    return sum(
        (row * torch.arange(1, len(row) + 1).to(row).sin() * (i + 1)).sum()
        for i, row in enumerate(logps)
    )


def of_rows_alone(model):
    """Log-probabilities and gradients in float64, a row at a time."""
    double, logps = copy.deepcopy(model).double(), []
    for prompt, completion in texts():
        logits = double(input_ids=torch.tensor([prompt + completion])).logits[0]
        logps_TV = logits[len(prompt) - 1 : -1].log_softmax(-1)
        logps.append(logps_TV[range(len(completion)), completion])
    weighted(logps).backward()
    return logps, {name: weight.grad for name, weight in double.named_parameters()}


def of_a_pass(model, *, share, plainly=False):
    """The same of a padded pass in float32; `plainly` as TRL makes it."""
    model = copy.deepcopy(model)
    add_fused_lm_head(model)
    ids, mask = padded()
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, : max(PROMPTS)] = -100
    named = {"input_ids": ids, "attention_mask": mask, "labels": labels, "fused_lm_head": True}
    if plainly:
        output = model(**named)
    else:
        with completions_alone(model, max(COMPLETIONS), share=share):
            output = model(**named)
    rows = output.log_probs[:, -max(COMPLETIONS) :]
    logps = [row[:length] for row, length in zip(rows, COMPLETIONS, strict=True)]
    weighted(logps).backward()
    return logps, {name: weight.grad for name, weight in model.named_parameters()}


def farthest(found, expected):
    """The largest difference of a log-probability, and of a weight's gradient by its norm."""
    logps = max(
        (mine.double() - row).abs().max().item()
        for mine, row in zip(found[0], expected[0], strict=True)
    )
    gradients = max(
        ((found[1][name].double() - gradient).norm() / gradient.norm().clamp(min=1e-3)).item()
        for name, gradient in expected[1].items()
        if gradient is not None
    )
    return logps, gradients


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("config", [LEARNED, ROTARY, ALIBI], ids=["learned", "rotary", "alibi"])
def test_padded_rows_are_read_as_rows_alone(config, share):
    model = built(config)
    expected = of_rows_alone(model)
    logps, gradients = farthest(of_a_pass(model, share=share), expected)
    assert logps < TOLERANCE
    assert gradients < TOLERANCE


def test_without_positions_learned_ones_are_others():
    """What TRL's own pass gives of GPT-2, and no farther than it on rotary ones."""
    model = built(LEARNED)
    expected = of_rows_alone(model)
    assert farthest(of_a_pass(model, share=False, plainly=True), expected)[0] > 0.05
    model = built(ROTARY)
    expected = of_rows_alone(model)
    ours, theirs = (
        farthest(of_a_pass(model, share=False, plainly=plainly), expected)
        for plainly in (False, True)
    )
    assert ours[0] <= max(theirs[0], 5e-6)


def test_who_takes_positions():
    mask = torch.ones(1, 2)
    assert positions_of(built(LEARNED), mask) is not None
    assert positions_of(built(ROTARY), mask) is not None
    assert positions_of(built(ALIBI), mask) is None
    images = built(ROTARY)  # as of a model that counts in three dimensions
    images.base_model.get_rope_index = lambda *_: None
    assert positions_of(images, mask) is None


def test_images_keep_the_positions_that_the_model_gives_them():
    model, seen = built(ROTARY).eval(), []
    add_fused_lm_head(model)
    model.base_model.register_forward_pre_hook(
        lambda _module, _arguments, named: seen.append(named.get("position_ids")), with_kwargs=True
    )
    plain = model.base_model.forward
    model.base_model.forward = lambda *a, pixel_values=None, **named: plain(*a, **named)
    ids, mask = padded()
    with completions_alone(model, 5, share=True):
        for images in ({}, {"pixel_values": torch.zeros(6, 3)}):
            model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True, **images)
    assert seen[-1] is None


def test_positions_by_hand():
    mask = torch.tensor([[0, 0, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]])
    assert positions_of(built(ROTARY), mask).tolist() == [[0, 0, 0, 1, 2, 2], [0, 1, 2, 3, 4, 5]]


def test_a_routers_noise_is_off_and_its_configuration_stays():
    config = MixtralConfig(
        **SHAPE,
        num_local_experts=4,
        num_experts_per_tok=2,
        router_jitter_noise=0.2,
        initializer_range=0.3,
    )
    model = built(config).train()
    ids, mask = padded()

    def differ():
        first, second = (model(input_ids=ids, attention_mask=mask).logits for _ in range(2))
        return not torch.equal(first, second)

    assert differ()
    switch_off_noise(model)
    assert not differ()
    assert model.config.router_jitter_noise == 0.2
