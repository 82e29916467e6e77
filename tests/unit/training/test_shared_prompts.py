"""Completions scored alone: equal to TRL's own passes, each prompt computed once, or left apart."""

from contextlib import contextmanager, nullcontext

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from transformers.models.gemma2 import Gemma2Config
from transformers.models.gpt2 import GPT2Config
from transformers.models.llama import LlamaConfig
from transformers.models.mistral import MistralConfig
from transformers.models.qwen2 import Qwen2Config
from trl.trainer.utils import add_fused_lm_head

from sage_cli.training.shared_prompts import completions_alone, prompt_names, regrouped

SHAPE = {
    "vocab_size": 53, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "pad_token_id": 0,
}  # fmt: skip
LLAMA = LlamaConfig(**SHAPE)
PROMPT, COMPLETION = 7, 5
NAMES = [3, 3, 8, 3, 8, 8]
"""Six rows of two prompts, not in order."""


def causal_model(config, *, lora=None):
    """A model under TRL's fused head, with an adapter of that dropout if it is given."""
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if lora is not None:
        model = get_peft_model(
            model, LoraConfig(r=2, target_modules="all-linear", lora_dropout=lora)
        )
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.3)
    return model.train()


def rows():
    """Ids and mask: a prompt of the second name is shorter, and two completions end early."""
    generator = torch.Generator().manual_seed(1)
    prompts = {name: torch.randint(1, 53, (PROMPT,), generator=generator) for name in (3, 8)}
    completions = torch.randint(1, 53, (len(NAMES), COMPLETION), generator=generator)
    ids = torch.cat([torch.stack([prompts[name] for name in NAMES]), completions], dim=1)
    mask = torch.ones_like(ids)
    mask[[2, 4, 5], :3] = 0  # padded on the left
    mask[1, -2:] = mask[4, -1:] = 0
    return ids, mask


def scored(model, around, **more):
    """Log-probabilities, entropies (B, T) and the gradient of their weighted sum."""
    ids, mask = rows()
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-COMPLETION] = -100
    model.zero_grad()
    with around:
        output = model(
            input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True, **more
        )
    logps_BT, entropy_BT = output.log_probs[:, -COMPLETION:], output.entropy[:, -COMPLETION:]
    weights_BT = torch.arange(logps_BT.numel()).reshape(logps_BT.shape).sin()
    (logps_BT * weights_BT).sum().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return logps_BT.detach(), entropy_BT.detach(), torch.cat([g.flatten() for g in gradients])


@contextmanager
def counted(model):
    """Positions that the model's first layer computes in each of its calls."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    positions = []
    layers = getattr(causal.base_model, "layers", None) or causal.base_model.h
    hook = layers[0].register_forward_pre_hook(
        lambda _module, arguments: positions.append(arguments[0].shape[:2].numel())
    )
    yield positions
    hook.remove()


@pytest.mark.parametrize(
    ("config", "lora"),
    [
        (LLAMA, None), (LLAMA, 0.0), (LlamaConfig(**SHAPE, tie_word_embeddings=True), None),
        (Qwen2Config(**SHAPE), 0.0), (MistralConfig(**SHAPE, sliding_window=None), None),
        (GPT2Config(vocab_size=53, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0, attn_pdrop=0,
                    embd_pdrop=0), None),
    ],
)  # fmt: skip
def test_shared_prompts_give_what_rows_apart_give(config, lora):
    model = causal_model(config, lora=lora)
    apart = scored(model, nullcontext())
    for names in (None, NAMES):
        with counted(model) as positions:
            alone = scored(model, completions_alone(model, COMPLETION, names))
        for mine, theirs in zip(alone, apart, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        # two prompts of seven tokens; then six rows, whose last token predicts nothing
        assert positions == ([6 * 12] if names is None else [2 * 7, 6 * 4])
    after = scored(model, nullcontext())  # nothing stays changed
    assert all(map(torch.equal, after, apart))


WINDOWS = {"sliding_window": 4}


def rotary(kind, **factors):
    """A configuration whose positions are encoded otherwise in texts of more than eight tokens."""
    rope = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 8, **factors}
    return LlamaConfig(**SHAPE, max_position_embeddings=8, rope_parameters=rope)


@pytest.mark.parametrize(
    ("config", "checkpointing", "names"),
    [
        (Gemma2Config(**SHAPE, **WINDOWS), False, NAMES),
        (MistralConfig(**SHAPE, **WINDOWS), False, NAMES),
        (rotary("dynamic", factor=4.0), False, NAMES),
        (rotary("longrope", short_factor=[1.0, 1.0], long_factor=[3.0, 5.0]), False, NAMES),
        (LLAMA, True, NAMES),
        (LLAMA, False, [1, 2, 3, 4, 5, 6]),  # nothing is shared
        (LLAMA, False, [3] * 6),  # an environment has added to one prompt of the data
    ],
)
def test_where_a_cache_cannot_stand_for_a_prompt_rows_stay_apart(config, checkpointing, names):
    model = causal_model(config)
    if checkpointing:
        model.gradient_checkpointing_enable()
    apart = scored(model, nullcontext())
    with counted(model) as positions:
        alone = scored(model, completions_alone(model, COMPLETION, names))
    assert set(positions) == {6 * 12}
    for mine, theirs in zip(alone, apart, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_rows_with_dropout_have_their_own_noise():
    model = causal_model(LLAMA, lora=0.5)
    with counted(model) as positions:
        scored(model, completions_alone(model, COMPLETION, NAMES))
    assert positions == [6 * 12]
    with counted(model) as positions, torch.no_grad():  # without noise there is none to keep apart
        model.eval()
        ids, mask = rows()
        with completions_alone(model, COMPLETION, NAMES):
            model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True)
    assert positions == [2 * 7, 6 * 4]


def test_passes_over_parts_of_the_rows_take_their_names_in_turn():
    model = causal_model(LLAMA).eval()
    ids, mask = rows()

    def logps(parts, names):
        with completions_alone(model, COMPLETION, names), torch.no_grad():
            outputs = [
                model(input_ids=ids[part], attention_mask=mask[part], labels=ids[part],
                      fused_lm_head=True).log_probs
                for part in parts
            ]  # fmt: skip
        return torch.cat(outputs)

    apart = logps([slice(0, 6)], None)
    with counted(model) as positions:
        in_parts = logps([slice(0, 4), slice(4, 6)], NAMES)
    torch.testing.assert_close(in_parts, apart, rtol=1e-4, atol=1e-5)
    assert positions == [2 * 7, 4 * 4, 1 * 7, 2 * 4]


def test_names_are_of_prompts_alone():
    chat = [{"role": "user", "content": "2+2=?"}]
    a, b, c, d = prompt_names(
        [{"prompt": "x", "row": 1}, {"prompt": "x", "row": 2}, {"prompt": chat}, {"prompt": chat}]
    )
    assert a == b != c == d
    prompt_names([{"environment": "game"}])  # which has its own prompts


def test_a_steps_rows_stand_beside_those_of_their_prompt():
    names = torch.tensor([7, 5, 7, 6, 5, 6])
    order = [0, 2, 1, 4, 3, 5]  # 7 7 5 | 5 6 6
    whole = {
        "prompt_names_B": names,
        "completion_ids": torch.arange(12).reshape(6, 2),
        "num_items_in_batch": torch.tensor(9),
        "old_per_token_logps": None,
    }
    halves = [
        {key: value[part] if torch.is_tensor(value) and value.dim() else value
         for key, value in whole.items()}
        for part in (slice(0, 3), slice(3, 6))
    ]  # fmt: skip
    first, second = regrouped(halves)
    assert first["prompt_names_B"].tolist() == [7, 7, 5]
    assert second["prompt_names_B"].tolist() == [5, 6, 6]
    assert torch.equal(
        torch.cat([first["completion_ids"], second["completion_ids"]]),
        whole["completion_ids"][order],  # type: ignore[index]
    )
    assert first["num_items_in_batch"] == 9
    assert first["old_per_token_logps"] is None
    assert halves[0]["prompt_names_B"].tolist() == [7, 5, 7]  # what was given stays
