"""What a model's files tell before it is loaded: cut weights, and what our decoder can't sample."""

import json
import shutil
from typing import Any

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.folders import require_whole_weights
from sage_cli.models.obstacles import planned_obstacles
from sage_cli.models.stages import plan_of
from sage_cli.training.run import InitialPolicy, RlTraining


def safetensors(file, floats=80):
    entry = {"dtype": "F32", "shape": [floats], "data_offsets": [0, 4 * floats]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "weight": entry}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 * floats))


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2"}')
    safetensors(folder / "model.safetensors")
    return folder


def configured(path, *sets):
    sets = (f"run.root={path.parent / 'runs'}", "prompt.format=plain", *sets)
    return load(["tiny"], {"model": {"kind": "pretrained", "path": str(path)}}, sets).config


def cut(size):
    def damage(folder):
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:size])

    return damage


def moved_to_bin(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_a_shard(folder):
    shards = {"a": "model.safetensors", "b": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


def pointer(folder):
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")


def none(folder):
    (folder / "model.safetensors").unlink()


def below_an_adapter(folder):
    base = folder.parent / "base"
    shutil.copytree(folder, base)
    cut(200)(base)
    (folder / "config.json").unlink()
    adapter = {"base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (cut(200), r"model\.safetensors has 200 bytes and should have 4\d\d"),
        (cut(20), "has 20 bytes and ends within its header"),
        (cut(0), "has 0 bytes and should have|ends within"),
        (pointer, "ends within its header"),
        (moved_to_bin, r"has no \*\.safetensors; of \*\.bin none is read"),
        (none, r"has no \*\.safetensors"),
        (without_a_shard, r"has no model-2\.safetensors"),
        (below_an_adapter, r"base/model\.safetensors has 200 bytes"),
    ],
)
def test_damaged_weights_are_named_by_the_plan_of_every_training(model, damage, cause):
    require_whole_weights(model)
    damage(model)
    with pytest.raises(DataError, match=cause):
        require_whole_weights(model)
    trained = configured(model)
    for start in (
        lambda: RlTraining.of(trained).stages[0].describe(),  # SFT
        lambda: InitialPolicy(configured(model, "sft.enabled=false")).policy,
        lambda: InitialPolicy(trained, str(model)).policy,
    ):
        with pytest.raises(DataError, match=cause):
            start()


GEMMA_2 = {"model_type": "gemma2", "attn_logit_softcapping": 50.0, "sliding_window": 4096}
GPT_OSS = {"model_type": "gpt_oss", "layer_types": ["sliding_attention", "full_attention"]}
QWEN = {"sliding_window": 32, "use_sliding_window": False}
REFUSED: list[tuple[dict[str, Any], str | None]] = [
    (GEMMA_2, "softcap"),
    (GPT_OSS, "sinks"),
    ({"text_config": {"sliding_window": 32, "layer_types": ["sliding_attention"]}}, "windows"),
    ({"sliding_window": 32}, "windows or chunks of 32 tokens, and a text may have 48"),
    ({"attention_chunk_size": 32, "layer_types": ["chunked_attention"]}, "chunks of 32"),
    ({"layer_types": ["linear_attention"]}, "recurrent state"),
    ({"rope_scaling": {"type": "dynamic"}, "max_position_embeddings": 40}, "'dynamic' RoPE"),
    ({"rope_scaling": {"type": "dynamic"}, "max_position_embeddings": 400}, None),
    ({"sliding_window": 4096}, None),
    ({"sliding_window": None}, None),
    ({"sliding_window": 32, "layer_types": ["full_attention"]}, None),
    (QWEN, None),
]


@pytest.mark.parametrize(("config", "obstacle"), REFUSED)
def test_what_our_decoder_can_not_sample_is_said_before_anything_is_trained(
    model, config, obstacle
):
    (model / "config.json").write_text(json.dumps({"model_type": "qwen2", **config}))
    sets = ["sft.enabled=false", "rl.optimizer=adamw", "model.tuning=full"]
    planned = RlTraining.of(configured(model, *sets, "rollout.backend=auto"))
    facts = plan_of(planned.stages)[-1].facts
    assert ("without vLLM" in facts) == (obstacle is not None)
    training = RlTraining.of(configured(model, *sets, "rollout.backend=sampler"))
    if obstacle is None:
        plan_of(training.stages)
        assert training.start.obstacle(48) is None
        return
    assert obstacle in facts["without vLLM"]
    for refuse in (training.check_rollouts, lambda: plan_of(training.stages)):
        with pytest.raises(ConfigurationError, match="the builtin backend can't sample") as refusal:
            refuse()
        assert obstacle in refusal.value.cause
        assert "rollout.backend=transformers" in str(refusal.value.next_step)
        assert "transformers" not in refusal.value.cause  # it is what the next step offers


def test_an_unknown_model_has_no_obstacle():
    assert list(planned_obstacles({}, 10**6)) == []
