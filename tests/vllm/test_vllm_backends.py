"""The in-process engine and `vllm serve` with a small model: one sample set, filled by either."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM

from sage_cli.errors import SamplingError
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, SamplingParameters
from sage_cli.sampling.server import ServerSampler
from sage_cli.sampling.vllm_sampler import VllmSampler
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.sample_set import SampleIdentity, SampleSet
from sage_cli.testing import SamplerContract

pytestmark = pytest.mark.timeout(1800)  # on a busy CPU an engine takes minutes to load

PROMPTS = {f"p{a}": f"{a}*{a + 3}=?" for a in range(11, 21)}
SAMPLED = SamplingParameters(0.9, 0.95, 20, 0.02, 24, "</SOLUTION>")
GREEDY = SamplingParameters(0.0, 1.0, 0, 0.0, 24, "</SOLUTION>")
SEED = 7


def setup(path, parameters, backend="vllm", rows=32):
    section = SamplingSection(backend=backend, batch_rows=rows)
    return SamplerSetup(path, parameters, section, dtype="float32")


@pytest.fixture(scope="module")
def adapter(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("adapter")
    torch.manual_seed(1)
    model = get_peft_model(
        Qwen2ForCausalLM.from_pretrained(folder),
        LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]),
    )
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(path)
    load_tokenizer(folder).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder):
    with VllmSampler(setup(folder, SAMPLED)) as sampler:
        yield sampler


@pytest.fixture(scope="module")
def server(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # What `vllm serve` runs; the script itself asks for the metadata of a package named vllm,
    # which the build for CPUs doesn't have.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--dtype", "float32", "--port", str(port), "--enforce-eager"]
    with subprocess.Popen(command, env=os.environ | {"VLLM_LOGGING_LEVEL": "WARNING"}) as process:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None, "the server ended before it answered"
            try:
                httpx.get(f"{address}/health").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(1)
        else:
            pytest.fail("the server didn't answer within ten minutes")
        yield address
        process.terminate()


def requests(indices, names=tuple(PROMPTS)):
    return [SampleRequest(name, PROMPTS[name], tuple(indices), SEED) for name in names]


def by_key(sampler, wanted):
    drawn = list(sampler.sample(wanted))
    keyed = {(row.problem_id, row.index): row for row in drawn}
    assert len(keyed) == len(drawn) == sum(len(request.indices) for request in wanted)
    return keyed


def share_equal(a, b):
    assert a.keys() == b.keys()
    return sum(a[key].text == b[key].text for key in a) / len(a)


def test_a_sample_depends_on_its_seed_and_not_on_its_company(engine):
    together = by_key(engine, requests(range(16)))
    assert len({row.text for row in together.values()}) > 0.9 * len(together)
    alone = by_key(engine, requests([5], ["p13"]))
    assert alone["p13", 5] == together["p13", 5]
    reordered = by_key(engine, requests(range(16), list(PROMPTS)[::-1]))
    # Equal seeds give equal text up to sums that are added in another order.
    assert share_equal(reordered, together) >= 0.95
    assert {row.finish_reason for row in together.values()} <= {"stop", "length"}
    assert all(row.tokens == 24 for row in together.values() if row.finish_reason == "length")


def test_one_sample_set_is_filled_by_the_engine_and_then_by_a_server(
    engine, server, folder, tmp_path
):
    samples = SampleSet(tmp_path, SampleIdentity("m", "t", {}, SEED))
    assert fill(samples, PROMPTS, 8, engine) == 80
    section = SamplingSection(servers=(server,), batch_rows=16)
    remote = ServerSampler(SamplerSetup(folder, SAMPLED, section))
    assert fill(samples, PROMPTS, 16, remote) == 80
    rows = {(row.problem_id, row.index): row for row in samples.completions()}
    assert len(rows) == 160
    assert share_equal(rows, by_key(engine, requests(range(16)))) >= 0.95


@pytest.mark.parametrize("which", ["folder", "adapter"])
def test_greedy_text_equals_the_transformers_backend(which, request):
    path = request.getfixturevalue(which)
    drawn = []
    for backend in ("vllm", "transformers"):
        with build_sampler(setup(path, GREEDY, backend, rows=16)) as sampler:
            drawn.append(by_key(sampler, requests([0])))
    assert share_equal(*drawn) >= 0.9


class LeftOpen(Sampler):
    """The module's engine, which takes half a minute to load; closing it is tested below."""

    def __init__(self, engine):
        self.sample, self._engine = engine.sample, engine  # type: ignore[method-assign]

    @property
    def provenance(self):
        return self._engine.provenance

    def close(self): ...


class TestVllm(SamplerContract):
    parameters = SAMPLED
    deterministic_share = 0.85

    @pytest.fixture(autouse=True)
    def _given(self, engine):
        self.engine = engine

    def make(self):
        return LeftOpen(self.engine)


def test_a_closed_engine_is_gone_and_says_so(folder):
    before = engines()
    sampler = VllmSampler(setup(folder, SAMPLED))
    (own,) = engines() - before
    sampler.close()
    sampler.close()
    assert own not in engines()
    with pytest.raises(SamplingError, match="closed"):
        list(sampler.sample(requests([0])))


def engines():
    """This process's children that are engines and live; one that ended is a zombie for a while."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
    states = {int(pid): Path(f"/proc/{pid}/stat").read_text().split(") ") for pid in listed.split()}
    return {pid for pid, (name, rest) in states.items() if "VLLM" in name and rest[0] != "Z"}
