"""Shapes of models, by hand and as they are published."""

import json

import pytest

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
