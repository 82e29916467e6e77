"""What training and sampling keep in memory, by hand."""

from dataclasses import replace

import pytest

from sage_cli.models.memory import (
    TILE_TOKENS,
    TrainingSetup,
    kv_cache,
    layer_bytes,
    sampling,
    training_memory,
    training_state,
    update,
)
from sage_cli.models.shape import PUBLISHED, Shape

TOY_MEMORY = Shape(
    hidden=4, feed_forward=6, layers=2, heads=2, kv_heads=1, head_size=2, vocabulary=10,
    tied=True, qkv_bias=False,
)  # fmt: skip


# 10x4 + 2 x (48 + 72 + 8) + 4
NUMBERS = 300
FULL = TrainingSetup(4, 4, "adamw", checkpointing=False, fused=False)
LORA = TrainingSetup(2, 2, "adamw_8bit", checkpointing=False, adapter=50)


def test_what_a_training_keeps_by_hand():
    assert TOY_MEMORY.parameters == NUMBERS
    # float32 weights, as much for the reference, two float32 moments
    assert training_state(TOY_MEMORY, FULL) == {
        "weights": 1200,
        "reference": 1200,
        "optimizer": 2400,
    }
    assert training_state(TOY_MEMORY, replace(FULL, reference=False))["reference"] == 0
    # bfloat16 weights and float32 adapters; the reference is an adapter; 2 + 8 / 256 bytes of 50
    assert training_state(TOY_MEMORY, LORA) == {"weights": 800, "reference": 200, "optimizer": 101}
    # two GPUs hold half each
    assert training_state(TOY_MEMORY, replace(FULL, shards=2))["optimizer"] == 1200


def test_an_update_by_hand():
    # a layer's token: 2x4 norms' outputs, 2x4 queries and output, 2x2 keys and values, 4x6 of the
    # MLP: 44 numbers; norms' inputs and normalised inputs: 4x4
    assert layer_bytes(TOY_MEMORY, FULL) == (44 + 16) * 4
    found = update(TOY_MEMORY, FULL, rows=2, prompt=3, completion=4)
    # two layers of 14 tokens, and the gradients of one: 3x6 + 2x4 numbers a token
    assert found["activations"] == 2 * 14 * 240 + 14 * 26 * 4
    assert (found["gradients"], found["cast weights"]) == (1200, 0)
    # three tiles of 14 x 10 in float32; 14 x 4 states and their gradient; the head's gradient
    assert found["logits"] == 3 * 14 * 10 * 4 + 14 * 4 * 8 + 10 * 4 * 4
    # float32 weights whose products are bfloat16 are there a second time
    mixed = update(TOY_MEMORY, replace(FULL, product_bytes=2), rows=2, prompt=3, completion=4)
    assert mixed["cast weights"] == 600
    # with checkpointing: two layers' inputs, one layer and its gradients
    kept = update(TOY_MEMORY, replace(FULL, checkpointing=True), rows=2, prompt=3, completion=4)
    assert kept["activations"] == 2 * 14 * 4 * 4 + 14 * 240 + 14 * 26 * 4
    assert layer_bytes(TOY_MEMORY, LORA) == 44 * 2 + 8 * 4


def test_caches_drawing_and_tiles_by_hand():
    shape = PUBLISHED["Qwen/Qwen2.5-Math-7B"]
    # 2 x 28 layers x 4 heads x 128 numbers of two bytes
    assert kv_cache(shape, rows=1, tokens=1, width=2) == 57_344
    # keys and values: 2 x 2 layers x 1 head x 2; 3 rows of 7 tokens, float32: 672 and a layer's
    # half again; logits: 3 x 10 of 4 + 4 + 4 + 8 bytes
    assert sampling(TOY_MEMORY, 4, rows=3, prompt=3, completion=4) == {
        "KV cache": 1008,
        "logits": 600,
    }
    short = update(TOY_MEMORY, LORA, rows=1, prompt=0, completion=TILE_TOKENS)["logits"]
    long = update(TOY_MEMORY, LORA, rows=2, prompt=0, completion=TILE_TOKENS)["logits"]
    # the tile stays; the states and their gradient double
    assert long - short == TILE_TOKENS * 4 * (2 + 4)


def test_the_peak_is_what_stays_and_the_largest_phase_or_an_engine():
    found = training_memory(TOY_MEMORY, FULL, rows=2, rollouts=2, prompt=3, completion=4)
    phases = {name: sum(parts.values()) for name, parts in found.phases.items()}
    assert found.largest_phase == "update"
    assert found.peak == 4800 + phases["update"]
    many = training_memory(TOY_MEMORY, LORA, rows=1, rollouts=10_000, prompt=3, completion=4)
    assert many.largest_phase == "rollout"
    # keys and values of rollouts are float32, whatever the products are
    assert many.phases["rollout"] == sampling(TOY_MEMORY, 4, 10_000, 3, 4)
    found = training_memory(
        TOY_MEMORY, FULL, rows=2, rollouts=2, prompt=3, completion=4, engine=5000
    )
    assert found.resident["vLLM"] == 5000
    assert list(found.phases) == ["update"]
    sizes = {"rows": 2, "rollouts": 2, "prompt": 3, "completion": 4, "engine": 5000}
    awake, asleep = (training_memory(TOY_MEMORY, FULL, **sizes, sleeps=s) for s in (False, True))
    updating = sum(asleep.phases["update"].values())
    assert awake.peak == 4800 + 5000 + updating
    assert asleep.peak == 4800 + max(5000, updating)
    assert "vLLM" not in asleep.resident


@pytest.mark.parametrize("smaller", [{"rows": 4}, {"completion": 500}])
def test_less_work_takes_less(smaller):
    shape = PUBLISHED["Qwen/Qwen2.5-Math-1.5B-Instruct"]
    work = {"rows": 8, "rollouts": 16, "prompt": 500, "completion": 1000}
    lora = TrainingSetup(2, 2, "adamw_8bit", checkpointing=True, adapter=10**7)
    peak = training_memory(shape, lora, **work).peak
    assert training_memory(shape, lora, **(work | smaller)).peak < peak
