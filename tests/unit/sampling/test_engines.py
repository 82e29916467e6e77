"""Arguments of vLLM's engine: what is refused before an engine is loaded."""

import pytest
import torch
from safetensors.torch import save_file

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, SamplingError
from sage_cli.sampling.vllm_sampler import lora_rank


@pytest.mark.parametrize(("rank", "rounded"), [(1, 8), (8, 8), (9, 16), (257, 320), (512, 512)])
def test_ranks_are_rounded_up_to_what_vllm_has(rank, rounded, tmp_path):
    (tmp_path / "adapter_config.json").write_text(f'{{"r": {rank}, "modules_to_save": null}}')
    assert lora_rank(tmp_path) == rounded


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('{"r": 513}', "rank 513"),
        ('{"r": 8, "modules_to_save": ["lm_head"]}', "modules_to_save"),
        ('{"r": 8, "target_parameters": ["mlp.experts.down_proj"]}', "target_parameters"),
        ('{"r": 8, "use_dora": true}', "use_dora"),
        ('{"r": 8}', "embeddings of its own"),
    ],
)
def test_an_adapter_that_vllm_does_not_take_is_to_be_merged(settings, why, tmp_path):
    (tmp_path / "adapter_config.json").write_text(settings)
    if "embeddings" in why:
        name = "base_model.model.model.embed_tokens.weight"
        save_file({name: torch.zeros(3, 2)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(SamplingError, match=why) as no:
        lora_rank(tmp_path)
    assert "sage export" in str(no.value.next_step)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("gpu_memory_utilization=1.5", "1.5 isn't a share of the GPU's memory"),
        ("gpu_memory_utilization=0", "0 isn't a share of the GPU's memory"),
        ("tensor_parallel_size=0", "0 isn't a whole number"),
        ("max_model_len=2.5", "2.5 isn't a whole number"),
        ("max_num_seqs=8", "decided by sampling.batch_rows"),
        ("generation_config=auto", "decided by the settings of `sampling`"),
        ("quantization=fp8", "changes what is sampled"),
        ("watermark_config={key: 1}", "changes what is sampled"),
        ("lora_target_modules=[q_proj]", "changes what is sampled"),
        ("tokenizer_revision=old", "decided by model.revision"),
    ],
)
def test_bad_settings_are_refused_when_they_are_read(setting, said):
    with pytest.raises(ConfigurationError, match=said):
        load(sets=[f"sampling.vllm.{setting}"])


def test_good_settings_reach_the_section_and_no_identity():
    sets = ["sampling.vllm.tensor_parallel_size=2", "sampling.vllm.block_size=32"]
    section = load(sets=sets).config.sampling
    assert section.vllm == {"tensor_parallel_size": 2, "block_size": 32}
    assert section.tensor_parallel == 2
    assert section.determinants() == load().config.sampling.determinants()
