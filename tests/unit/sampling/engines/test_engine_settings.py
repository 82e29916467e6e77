"""Arguments of vLLM's engine: what is refused before an engine is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, SamplingError
from sage_cli.sampling.engines.engine_settings import (
    known_settings,
    lora_rank,
    refuse_division,
    refuse_missing_gpus,
    refuse_unknown,
)
from sage_cli.settings.sections.sampling import SamplingSection

SOURCE = '''
import dataclasses

@dataclasses.dataclass
class EngineArgs:
    """Arguments for vLLM engine."""

    model: str = "x"
    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None

    def create(self): ...
'''


@pytest.mark.parametrize(("rank", "rounded"), [(1, 8), (8, 8), (9, 16), (257, 320), (512, 512)])
def test_ranks_are_rounded_up_to_what_vllm_has(rank: int, rounded: int) -> None:
    assert lora_rank(rank) == rounded


def test_a_rank_above_all_of_them_is_to_be_merged() -> None:
    with pytest.raises(SamplingError, match="rank 513") as no:
        lora_rank(513)
    assert "sage export" in str(no.value.next_step)


def test_known_arguments_are_read_from_the_source(tmp_path: Path) -> None:
    file = tmp_path / "arg_utils.py"
    file.write_text(SOURCE, encoding="utf-8")
    known = known_settings(file)
    assert known == {"model", "gpu_memory_utilization", "max_model_len"}
    refuse_unknown({"max_model_len": 5}, known)
    with pytest.raises(SamplingError, match=r"max_model_length is no argument.*max_model_len\?"):
        refuse_unknown({"max_model_length": 5}, known)
    assert known_settings(tmp_path / "absent.py") == frozenset()
    refuse_unknown({"anything": 5}, frozenset())  # vLLM itself will say


def test_heads_must_be_divided() -> None:
    refuse_division(4, {"num_attention_heads": 28})
    refuse_division(3, {})
    with pytest.raises(SamplingError, match="3 doesn't divide the model's 28") as no:
        refuse_division(3, {"num_attention_heads": 28})
    assert "1, 2, 4, 7, 14, 28" in str(no.value.next_step)


def test_more_gpus_than_there_are_are_refused() -> None:
    refuse_missing_gpus(2, 4, 8)
    with pytest.raises(SamplingError, match=r"data_parallel 3 x .* asks for 12 GPUs, .* shows 8"):
        refuse_missing_gpus(3, 4, 8)


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
def test_bad_settings_are_refused_when_they_are_read(setting: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(sets=[f"sampling.vllm.{setting}"])


def test_good_settings_reach_the_section_and_no_identity() -> None:
    sets = ["sampling.vllm.tensor_parallel_size=2", "sampling.vllm.block_size=32"]
    section = load(sets=sets).config.sampling
    assert section.vllm == {"tensor_parallel_size": 2, "block_size": 32}
    assert section.tensor_parallel == 2
    assert section.determinants() == load().config.sampling.determinants()


def test_engines_and_servers_are_not_both_asked() -> None:
    with pytest.raises(ValueError, match="servers sample"):
        SamplingSection(data_parallel=2, servers=("http://localhost:1",))
