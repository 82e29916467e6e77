"""How many numbers a model holds, by hand and as its makers count them."""

import json
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
from sage_cli.models.shape import PUBLISHED, Shape, shape_in, shape_of
from sage_cli.settings.model import PretrainedModel, ScratchModel

TOY = Shape(
    hidden=4, feed_forward=6, layers=2, heads=2, kv_heads=1, head_size=2, vocabulary=10,
    tied=False, qkv_bias=True,
)  # fmt: skip
QWEN_7B = "Qwen/Qwen2.5-Math-7B"


def test_parameters_by_hand():
    # q 4x4, k and v 4x2 each, o 4x4: 48; MLP 3 x 4x6: 72; biases 4 + 2 + 2; two norms of 4
    layer = 48 + 72 + 8 + 8
    assert TOY.parameters == 2 * 10 * 4 + 2 * layer + 4
    # rank 3: q 3 x (4 + 4), down 3 x (6 + 4), in two layers
    assert TOY.adapter_parameters(3, ("q_proj", "down_proj")) == 2 * 3 * (8 + 10)
    assert TOY.adapter_parameters(3, ("lm_head",)) == 0
    shape = shape_of(ScratchModel(kind="scratch", hidden=96, layers=3, heads=4, feed_forward=288))
    assert shape is not None
    # 95 characters, four tags, end and padding; embeddings are tied
    # 101 x 96; a layer: 4 x 96^2 + 3 x 96 x 288 + 3 x 96 + 2 x 96 = 120,288; the last norm: 96
    assert (shape.vocabulary, shape.parameters) == (101, 101 * 96 + 3 * 120_288 + 96)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # the numbers of elements in the published safetensors
        (QWEN_7B, 7_615_616_512),
        ("Qwen/Qwen2.5-3B-Instruct", 3_085_938_688),
        ("Qwen/Qwen2.5-Math-1.5B-Instruct", 1_543_714_304),
    ],
)
def test_published_models_have_the_numbers_that_are_published(name, parameters):
    assert PUBLISHED[name].parameters == parameters


def test_a_folder_tells_its_shape_and_another_kind_of_model_tells_none(tmp_path):
    config = {
        "hidden_size": 4,
        "intermediate_size": 6,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 10,
        "model_type": "qwen2",
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert shape_of(PretrainedModel(path=str(tmp_path))) == TOY
    assert shape_in({"d_model": 512}) is None
    assert shape_of(PretrainedModel(path=str(tmp_path / "absent"))) is None


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
