"""Arguments of vLLM's engine: what is refused before an engine is loaded."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from answering import Answering, broken, slow, unable
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, RefusedPromptsError, SamplingError
from sage_cli.sampling.engines import (
    Engines,
    gpu_shares,
    known_settings,
    lora_rank,
    refuse_division,
    refuse_missing_gpus,
    refuse_unknown,
)
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import SamplerSetup, SamplingParameters, build_sampler
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.sample_parts import Completion
from sage_cli.store.sample_set import SampleIdentity, SampleSet

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
def test_ranks_are_rounded_up_to_what_vllm_has(rank: int, rounded: int, tmp_path: Path) -> None:
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
def test_an_adapter_that_vllm_does_not_take_is_to_be_merged(
    settings: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_text(settings)
    if "embeddings" in why:
        name = "base_model.model.model.embed_tokens.weight"
        save_file({name: torch.zeros(3, 2)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(SamplingError, match=why) as no:
        lora_rank(tmp_path)
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


SECTION = SamplingSection(backend="transformers", batch_rows=16, data_parallel=2)
PARAMETERS = SamplingParameters(1.0, 1.0, 0, 0.0, 24, "</SOLUTION>")
SETUP = SamplerSetup("nowhere", PARAMETERS, SECTION)
IDENTITY = SampleIdentity("model", "template", {}, 3)
PROMPTS = {f"p{i}": f"{i}+{i + 1}=" for i in range(6)}
N = 32
PATIENCE_S = 300


@contextmanager
def engines_of(setup: SamplerSetup = SETUP, make: Any = Answering) -> Iterator[Engines]:
    engines = Engines(setup, make)
    try:
        yield engines
    finally:
        engines.close()


def texts(samples: SampleSet) -> dict[tuple[str, int], str]:
    return {(one.problem_id, one.index): one.text for one in samples.completions()}


def kill(engines: Engines, number: int) -> None:
    process = engines._engines[number].process
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


def test_two_engines_share_the_work_and_stay_for_the_next(tmp_path: Path) -> None:
    samples, heard = SampleSet(tmp_path, IDENTITY), list[Completion]()
    with engines_of(make=slow) as engines:
        engines.fill(samples, PROMPTS, N // 2, heard.extend)
        engines.fill(samples, PROMPTS, N, heard.extend)
        assert len(engines._engines) == 2
    drawn = Counter((one.problem_id, one.index) for one in samples.completions())
    assert drawn == Counter((problem, i) for problem in PROMPTS for i in range(N))
    assert {(one.problem_id, one.index): one.text for one in heard} == texts(samples)
    assert all(one.part is not None for one in heard)
    writers = {part.name.split("-")[1] for part in samples.inventory().parts}
    assert len(writers) == 4  # each was a writer twice


def test_an_engine_that_is_killed_leaves_its_share_to_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    with engines_of() as engines:
        kill(engines, 0)
        engines.fill(samples, PROMPTS, N, lambda _: None)
        assert samples.inventory().count_missing(list(PROMPTS), N) == 0
        assert "exit code -9" in caplog.text
        kill(engines, 0)
        with pytest.raises(SamplingError, match=r"ended by itself \(exit code -9\)"):
            engines.fill(samples, PROMPTS, N + 1, lambda _: None)


def test_what_an_engine_says_against_its_model_is_raised(tmp_path: Path) -> None:
    with engines_of(make=unable) as engines, pytest.raises(SamplingError, match="from nowhere"):
        engines.fill(SampleSet(tmp_path, IDENTITY), PROMPTS, 1, lambda _: None)
    with engines_of(make=broken) as engines, pytest.raises(SamplingError, match="exit code 1"):
        engines.fill(SampleSet(tmp_path, IDENTITY), PROMPTS, 1, lambda _: None)


def test_refused_prompts_are_named_and_all_others_drawn(tmp_path: Path) -> None:
    samples, prompts = SampleSet(tmp_path, IDENTITY), PROMPTS | {"hard": "too long"}
    with engines_of() as engines, pytest.raises(RefusedPromptsError) as refused:
        engines.fill(samples, prompts, N, lambda _: None)
    assert refused.value.reasons == {"hard": "too long"}
    assert len(texts(samples)) == len(PROMPTS) * N


def test_engines_that_lose_their_owner_store_what_they_have_and_end(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    engines = Engines(SETUP, slow)
    processes = [engine.process for engine in engines._engines]

    class GoneError(Exception):
        pass

    def leave(_: list[Completion]) -> None:
        for engine in engines._engines:
            engine.pipe.close()  # what the kernel does when the owner is killed
        raise GoneError

    with pytest.raises((GoneError, OSError)):
        engines.fill(samples, PROMPTS, 500, leave)
    deadline = time.monotonic() + PATIENCE_S
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(process.is_alive() for process in processes)
    held = SampleSet(tmp_path, IDENTITY).inventory().rows.num_rows
    assert 0 < held < 500 * len(PROMPTS)
    with engines_of() as others:  # killed and resumed like one
        others.fill(SampleSet(tmp_path, IDENTITY), PROMPTS, 500, lambda _: None)
    assert len(texts(SampleSet(tmp_path, IDENTITY))) == 500 * len(PROMPTS)


def test_two_engines_draw_the_samples_of_one_sampler(
    tmp_path: Path, model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    setup = SamplerSetup(tmp_path / "model", PARAMETERS, SECTION)
    alone, together = (SampleSet(tmp_path / name, IDENTITY) for name in ("alone", "together"))
    with build_sampler(setup) as sampler:
        fill(alone, PROMPTS, N, sampler)
    with engines_of(setup, build_sampler) as engines:
        engines.fill(together, PROMPTS, N, lambda _: None)
    assert texts(together) == texts(alone)


def test_gpus_are_shared_out_in_order() -> None:
    gpus = ("0", "2", "5", "7")
    assert gpu_shares(2, 2, gpus) == ["0,2", "5,7"]
    assert gpu_shares(4, 1, gpus) == ["0", "2", "5", "7"]
    assert gpu_shares(3, 1, ()) == [None] * 3
    with pytest.raises(SamplingError, match="asks for 6 GPUs"):
        gpu_shares(3, 2, gpus)
