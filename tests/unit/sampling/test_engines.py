"""Several engines on one sample set, as processes: the samples of one, whoever dies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from sage_cli.config.sampling import SamplingSection
from sage_cli.errors import SamplingError
from sage_cli.sampling.build import build_sampler
from sage_cli.sampling.engines import Engines, gpu_shares
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import SamplerSetup, SamplingParameters
from sage_cli.store.completion import Completion
from sage_cli.store.samples import SampleIdentity, SampleSet

SECTION = SamplingSection(backend="transformers", batch_rows=16, data_parallel=2)
PARAMETERS = SamplingParameters(1.0, 1.0, 0, 0.0, 24, "</SOLUTION>")
IDENTITY = SampleIdentity("model", "template", {}, 3)
PROMPTS = {f"p{i}": f"{i}+{i + 1}=" for i in range(6)}
N = 32


@pytest.fixture
def setup(tmp_path: Path, model: Any, tokenizer: PreTrainedTokenizerBase) -> SamplerSetup:
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return SamplerSetup(tmp_path / "model", PARAMETERS, SECTION)


def texts(samples: SampleSet) -> dict[tuple[str, int], str]:
    return {(one.problem_id, one.index): one.text for one in samples.completions()}


def test_two_engines_draw_the_samples_of_one(tmp_path: Path, setup: SamplerSetup) -> None:
    alone = SampleSet(tmp_path / "alone", IDENTITY)
    with build_sampler(setup) as sampler:
        fill(alone, PROMPTS, N, sampler)
    together = SampleSet(tmp_path / "together", IDENTITY)
    heard: list[Completion] = []
    engines = Engines(setup)
    try:
        engines.fill(together, PROMPTS, N // 2, heard.extend)
        engines.fill(together, PROMPTS, N, heard.extend)  # loaded once
    finally:
        engines.close()
    assert texts(together) == texts(alone)
    assert len(heard) == len(PROMPTS) * N
    assert all(one.part is not None for one in heard)
    writers = {part.name.split("-")[1] for part in together.inventory().parts}
    assert len(writers) >= 2


def test_an_engine_that_is_killed_leaves_its_share_to_the_other(
    tmp_path: Path, setup: SamplerSetup, caplog: pytest.LogCaptureFixture
) -> None:
    samples = SampleSet(tmp_path / "samples", IDENTITY)
    engines = Engines(setup)
    try:
        os.kill(engines._engines[0].process.pid or 0, signal.SIGKILL)
        engines.fill(samples, PROMPTS, N, lambda _: None)
        assert samples.inventory().count_missing(list(PROMPTS), N) == 0
        assert "exit code -9" in caplog.text
        assert len(engines._engines) == 1
        os.kill(engines._engines[0].process.pid or 0, signal.SIGKILL)
        engines._engines[0].process.join()
        with pytest.raises(SamplingError, match=r"ended by itself \(exit code -9\)"):
            engines.fill(samples, PROMPTS, N + 1, lambda _: None)
    finally:
        engines.close()


def test_what_an_engine_says_against_its_model_is_raised(tmp_path: Path) -> None:
    engines = Engines(SamplerSetup(tmp_path / "nowhere", PARAMETERS, SECTION))
    try:
        with pytest.raises(SamplingError, match="nowhere"):
            engines.fill(SampleSet(tmp_path, IDENTITY), PROMPTS, 1, lambda _: None)
    finally:
        engines.close()


def test_engines_end_when_their_owner_lets_go(setup: SamplerSetup) -> None:
    engines = Engines(setup)
    processes = [engine.process for engine in engines._engines]
    for engine in engines._engines:
        engine.pipe.close()  # what the kernel does when the owner is killed
    deadline = time.monotonic() + 300
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [process.exitcode for process in processes] == [128 + signal.SIGTERM] * 2


def test_gpus_are_shared_out_in_order() -> None:
    gpus = ("0", "2", "5", "7")
    assert gpu_shares(2, 2, gpus) == ["0,2", "5,7"]
    assert gpu_shares(4, 1, gpus) == ["0", "2", "5", "7"]
    assert gpu_shares(3, 1, ()) == [None] * 3
    with pytest.raises(SamplingError, match="asks for 6 GPUs"):
        gpu_shares(3, 2, gpus)
