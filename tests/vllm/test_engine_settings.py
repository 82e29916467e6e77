"""`sampling.vllm` on the real engine: what reaches it, what is refused, what never leaks in."""

import json
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters
from sage_cli.sampling.vllm_sampler import LORA_RANKS, VllmSampler
from sage_cli.settings.decoding import DECIDED_ELSEWHERE, OF_ANOTHER_MODEL
from sage_cli.settings.sampling import SamplingSection

pytestmark = pytest.mark.timeout(1800)

SAMPLED = SamplingParameters(0.9, 1.0, 0, 0.0, 16, "</SOLUTION>")
REQUESTS = [SampleRequest(f"p{a}", f"{a}*{a + 3}=?", tuple(range(4)), 7) for a in range(11, 17)]


def setup(path, **settings):
    section = SamplingSection(backend="vllm", batch_rows=32, vllm=settings)
    return SamplerSetup(path, SAMPLED, section, dtype="float32")


@pytest.fixture(scope="module")
def engine(folder):
    with VllmSampler(setup(folder, max_model_len=64)) as sampler:
        yield sampler


def texts(sampler):
    return {(one.problem_id, one.index): one.text for one in sampler.sample(REQUESTS)}


def test_nothing_of_generation_config_json_changes_what_is_drawn(engine, folder, tmp_path):
    tempting = tmp_path / "tempting"
    tempting.mkdir()
    for file in folder.iterdir():
        (tempting / file.name).write_bytes(file.read_bytes())
    said = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    said |= {"do_sample": True, "temperature": 0.01, "top_k": 1, "repetition_penalty": 5.0}
    (tempting / "generation_config.json").write_text(json.dumps(said), encoding="utf-8")
    with VllmSampler(setup(tempting, max_model_len=64)) as sampler:
        assert texts(sampler) == texts(engine)


def test_an_adapter_of_any_rank_is_sampled_from(folder, tmp_path):
    torch.manual_seed(1)
    model = get_peft_model(
        Qwen2ForCausalLM.from_pretrained(folder),
        LoraConfig(r=5, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    )
    model.save_pretrained(tmp_path)
    load_tokenizer(folder).save_pretrained(tmp_path)
    with VllmSampler(setup(tmp_path, max_model_len=64)) as sampler:
        assert len(texts(sampler)) == 24


def test_prompts_without_room_for_an_answer_are_named(engine):
    long = SampleRequest("long", "1+" * 40, (0,), 7)
    drawn = []
    with pytest.raises(RefusedPromptsError, match="more than the context of 64"):
        drawn.extend(one.problem_id for one in engine.sample([*REQUESTS, long]))
    assert len(drawn) == 24
    assert "long" not in drawn


def test_prompts_that_do_not_fit_into_one_step_wait_for_the_next(folder):
    """A CPU's engine dies where it reads a part of a seeded request's prompt."""
    settings = {"max_model_len": 64, "max_num_batched_tokens": 64}
    with VllmSampler(setup(folder, **settings)) as sampler:
        assert len(texts(sampler)) == 4 * len(REQUESTS)


@pytest.mark.parametrize("settings", [{"max_model_length": 64}, {"tensor_parallel_size": 3}])
def test_what_the_engine_refuses_is_an_error(folder, settings):
    with pytest.raises(SamplingError, match="vLLM can't load"):
        VllmSampler(setup(folder, **settings))


def test_what_is_known_of_vllm_is_so():
    config = find_spec("vllm")
    assert config is not None
    assert config.origin is not None
    package = Path(config.origin).parent
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in fields(EngineArgs)}
    assert {"tensor_parallel_size", "max_model_len", "gpu_memory_utilization"} <= known
    assert {*DECIDED_ELSEWHERE, *OF_ANOTHER_MODEL} <= known
    lora = (package / "config" / "lora.py").read_text(encoding="utf-8")
    assert all(str(rank) in lora for rank in LORA_RANKS)
