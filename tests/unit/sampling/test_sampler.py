"""From the configuration to a backend that samples."""

import json
import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, SamplingError
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling import vllm_sampler
from sage_cli.sampling.backends import build_sampler, chosen_backend
from sage_cli.sampling.sampler import (
    Sampler,
    SampleRequest,
    SamplerSetup,
    SamplingParameters,
    sample_seed,
)
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.completion import Completion

SECTION = SamplingSection(temperature=0.0, max_tokens=12, batch_rows=8)
PARAMETERS = SamplingParameters.from_section(SECTION, PromptTemplate(PromptSection(format="plain")))
REQUESTS = [SampleRequest("p", "1+1=", (0, 1))]


@pytest.fixture
def folder(tmp_path, model, tokenizer):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def texts(path):
    with build_sampler(setup(path)) as sampler:
        assert sampler.provenance["engine"].startswith("transformers ")
        return [completion.text for completion in sampler.sample(REQUESTS)]


def setup(path, section=SECTION):
    return SamplerSetup(path, PARAMETERS, section)


def test_a_folder_and_an_adapter_on_it_are_sampled_from(folder, make_model, tokenizer):
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


def test_what_is_not_a_model_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        build_sampler(setup(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("gpu", "installed", "auto", "obstacle"),
    [
        (False, None, "builtin", "is not installed"),
        (True, None, "builtin", "is not installed"),
        (False, "0.31.0", "builtin", "needs a GPU"),
        (False, "0.31.0 (cpu)", "builtin", None),
        (True, "0.31.0", "vllm", None),
    ],
)
def test_auto_and_what_stands_in_the_way_of_vllm(
    monkeypatch, folder, gpu, installed, auto, obstacle
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(vllm_sampler, "installed_vllm", lambda: installed)
    assert chosen_backend(SamplingSection(backend="auto")) == auto
    assert chosen_backend(SamplingSection(backend="server")) == "server"
    assert chosen_backend(SamplingSection(servers=("http://one/v1",))) == "server"
    if obstacle is None:
        assert vllm_sampler.vllm_obstacle() is None
    else:
        with pytest.raises(SamplingError, match=obstacle):
            build_sampler(setup(folder, SamplingSection(backend="vllm")))


def test_an_engine_is_never_forked_from_a_process_that_has_asked_for_gpus(monkeypatch, folder):
    """Torch asks the driver, which a fork can't use again; vLLM forks unless it is told."""

    def engine(*_, **__):
        raise RuntimeError(f"starts by {os.environ['VLLM_WORKER_MULTIPROC_METHOD']}")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(vllm_sampler, "installed_vllm", lambda: "0.31.0")
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=engine, __spec__=None))
    monkeypatch.setitem(sys.modules, "vllm.lora", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vllm.lora.request", SimpleNamespace(LoRARequest=None))
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "")
    monkeypatch.delenv("VLLM_WORKER_MULTIPROC_METHOD")
    with pytest.raises(SamplingError, match="starts by spawn"):
        build_sampler(setup(folder, SamplingSection(backend="vllm")))


class Engine:
    """What vLLM's is to its sampler; each request ends with `ids`, which it decodes as it likes."""

    def __init__(self, ids, reason):
        self.ids, self.reason = ids, reason
        self.asked = []
        self.waiting = []
        self.model_config = SimpleNamespace(max_model_len=500)

    def add_request(self, name, _prompt, params, **_):
        self.asked.append(params)
        self.waiting.append(name)

    def step(self):
        output = SimpleNamespace(text="", token_ids=self.ids, finish_reason=self.reason)
        waiting, self.waiting = self.waiting, []
        return [SimpleNamespace(finished=True, request_id=i, outputs=[output]) for i in waiting]


THOUGHT = "<think>in </SOLUTION></think>"


@pytest.mark.parametrize(
    ("opened", "written", "asked", "kept"),
    [
        (None, "1</SOLUTION>", "</SOLUTION>", "1</SOLUTION>"),
        ("", f"{THOUGHT}1</SOLUTION>+1", None, f"{THOUGHT}1</SOLUTION>"),
        ("<think>", "</SOLUTION></think>1</SOLUTION>", None, "</SOLUTION></think>1</SOLUTION>"),
        ("<think>", "in </SOLUTION>", None, None),
    ],
)
def test_vllm_is_told_the_ends_of_the_policys_tokenizer_and_cut_as_the_others(
    monkeypatch, folder, opened, written, asked, kept
):
    """An adapter's tokenizer may end otherwise than its base, whose ends are the engine's own."""
    tokenizer = load_tokenizer(folder)
    base_ends, own_end = [3, 7], tokenizer.eos_token_id
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": base_ends}))
    ids = tokenizer(written, add_special_tokens=False)["input_ids"]
    engine = Engine(ids, "length")
    modules = {
        "vllm": SimpleNamespace(
            LLM=lambda *_, **__: SimpleNamespace(llm_engine=engine), SamplingParams=SimpleNamespace
        ),
        "vllm.lora": SimpleNamespace(),
        "vllm.lora.request": SimpleNamespace(LoRARequest=None),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(vllm_sampler, "require_vllm", lambda: None)
    given = SamplingParameters(1.0, 1.0, 0, 0.0, 99, "</SOLUTION>", opened)
    sampler = vllm_sampler.VllmSampler(SamplerSetup(folder, given, SECTION))
    (sampled,) = sampler.sample([SampleRequest("p", "1+1=", (0,))])
    assert engine.asked[0].stop_token_ids == sorted({*base_ends, own_end})
    assert engine.asked[0].stop == asked
    assert not engine.asked[0].skip_special_tokens
    assert sampled.text == (kept or written)
    assert sampled.finish_reason == ("stop" if kept else "length")
    expected = tokenizer(sampled.text, add_special_tokens=False)["input_ids"]
    assert sampled.token_ids == tuple(expected)
    assert sampled.tokens == len(expected)


def test_a_server_without_an_address_is_refused(folder):
    with pytest.raises(SamplingError, match="no server"):
        build_sampler(setup(folder, SamplingSection(backend="server")))


class Echo(Sampler):
    """Answers with the prompt: what another package might register."""

    def __init__(self, setup):
        self.setup, self.closed = setup, False

    @property
    def provenance(self):
        return {"engine": "echo"}

    def sample(self, requests):
        for request in requests:
            for index in request.indices:
                seed = sample_seed(request.seed, request.problem_id, index)
                text = f"{self.setup.options['greeting']} {request.prompt} {seed}"[:60]
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")

    def close(self):
        self.closed = True


def registered(monkeypatch, target):
    point = EntryPoint("echo", f"package:{target.__name__}", "sage_cli.samplers")
    monkeypatch.setattr("sage_cli.settings.own_code.entry_points", lambda **_: (point,))
    monkeypatch.setattr(EntryPoint, "load", lambda _: target)


def test_a_registered_sampler_is_called_with_all_there_is(monkeypatch):
    registered(monkeypatch, Echo)
    section = SamplingSection(backend="echo", options={"greeting": "hello"})
    assert chosen_backend(section) == "echo"
    given = setup(Path("anywhere"), section)
    with build_sampler(given) as sampler:
        assert isinstance(sampler, Echo)
        assert sampler.setup == given
        (first, _) = sampler.sample(REQUESTS)
        assert first.text.startswith("hello 1+1= ")
    assert sampler.closed


def test_unknown_backends_and_what_is_no_sampler_are_refused_by_name(monkeypatch):
    registered(monkeypatch, list)
    monkeypatch.setattr(EntryPoint, "load", lambda _: lambda setup: [setup])
    with pytest.raises(ConfigurationError, match=r"sampler 'echo' \(package:list\) makes a list"):
        build_sampler(setup(Path("anywhere"), SamplingSection(backend="echo")))
    registered(monkeypatch, Echo)
    known = "known: auto, builtin, vllm, server, echo"
    with pytest.raises(ValueError, match=f"unknown sampler 'vlm'; {known}"):
        SamplingSection(backend="vlm")


def test_a_sampler_that_cannot_be_made_is_named_with_its_options(monkeypatch):
    def make(setup):
        raise KeyError("greeting")

    registered(monkeypatch, make)
    section = SamplingSection(backend="echo", options={"greting": "hello"})
    said = r"sampler 'echo' \(package:make\) .* the options greting='hello': KeyError: 'greeting'"
    with pytest.raises(ConfigurationError, match=said) as caught:
        build_sampler(setup(Path("anywhere"), section))
    assert "sampling.options.NAME=VALUE" in str(caught.value.next_step)
    monkeypatch.setattr("sage_cli.settings.own_code.entry_points", lambda **_: ())
    said = "no installed package registers the sampler 'echo'"
    with pytest.raises(ConfigurationError, match=said) as caught:
        build_sampler(setup(Path("anywhere"), section))
    assert "--set sampling.backend=NAME" in str(caught.value.next_step)


def test_options_without_a_backend_that_reads_them_are_refused():
    with pytest.raises(ValueError, match="'auto' reads none"):
        SageConfig.model_validate({"sampling": {"options": {"beam": 3}}})
