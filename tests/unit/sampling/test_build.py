"""From the configuration to a backend that samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedTokenizerBase

from sage_cli.config.sampling import SamplingSection
from sage_cli.errors import DataError, SamplingError
from sage_cli.sampling import build, vllm_sampler
from sage_cli.sampling.build import build_sampler, chosen_backend
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

SECTION = SamplingSection(temperature=0.0, max_tokens=12, batch_rows=8)
PARAMETERS = SamplingParameters.from_section(SECTION, stop="</SOLUTION>", seed=0)
REQUESTS = [SampleRequest("p", "1+1=", (0, 1))]


@pytest.fixture
def folder(tmp_path: Path, model: Any, tokenizer: PreTrainedTokenizerBase) -> Path:
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def texts(path: Path) -> list[str]:
    sampler = build_sampler(SECTION, PARAMETERS, path)
    assert sampler.provenance["engine"].startswith("transformers ")
    return [completion.text for completion in sampler.sample(REQUESTS)]


def test_a_folder_and_an_adapter_on_it_are_sampled_from(
    folder: Path, make_model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    adapter = folder.parent / "adapter"
    base = make_model()
    base.config.name_or_path = base.name_or_path = str(folder)
    adapted = get_peft_model(
        base, LoraConfig(target_modules=["q_proj", "up_proj"], init_lora_weights=False)
    )
    adapted.save_pretrained(adapter)
    tokenizer.save_pretrained(adapter)
    assert len(texts(adapter)) == 2
    assert texts(adapter) != texts(folder)


def test_what_is_not_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        build_sampler(SECTION, PARAMETERS, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("gpu", "installed", "auto", "obstacle"),
    [
        (False, None, "transformers", "isn't installed"),
        (True, None, "transformers", "isn't installed"),
        (False, "0.31.0", "transformers", "needs a GPU"),
        (False, "0.31.0 (cpu)", "transformers", None),
        (True, "0.31.0", "vllm", None),
    ],
)
def test_auto_and_what_stands_in_the_way_of_vllm(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    gpu: bool,
    installed: str | None,
    auto: str,
    obstacle: str | None,
) -> None:
    monkeypatch.setattr(build.torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(vllm_sampler, "installed_vllm", lambda: installed)
    assert chosen_backend(SamplingSection(backend="auto")) == auto
    assert chosen_backend(SamplingSection(backend="server")) == "server"
    assert chosen_backend(SamplingSection(servers=("http://one/v1",))) == "server"
    if obstacle is None:
        assert vllm_sampler.vllm_obstacle() is None
    else:
        section = SamplingSection(backend="vllm")
        with pytest.raises(SamplingError, match=obstacle):
            build_sampler(section, PARAMETERS, folder)


def test_a_server_without_an_address_is_refused(folder: Path) -> None:
    with pytest.raises(SamplingError, match="no server"):
        build_sampler(SamplingSection(backend="server"), PARAMETERS, folder)
