"""The server backend against a small real HTTP server that can stumble, hang up and die."""

import time
from collections import Counter
from itertools import count

import pytest
from endpoint import Endpoint, serving, text_for

from sage_cli.errors import SamplingError
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.sampling import server as server_client
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters, sample_seed
from sage_cli.sampling.server import ServerSampler
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.sample_set import SampleIdentity, SampleSet
from sage_cli.testing import SamplerContract

PARAMETERS = SamplingParameters(0.7, 0.9, 40, 0.05, 16, "</SOLUTION>")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(server_client, "FIRST_PAUSE_S", 0.01)


@pytest.fixture
def endpoints():
    made = [Endpoint(), Endpoint()]
    with serving(*made):
        yield made


def busy(requests):
    """Answer 503 to so many requests."""
    numbers = count()
    return lambda _, usual: (503, {"error": "busy"}, {}) if next(numbers) < requests else usual


def dying(requests):
    """Hang up on every request after so many."""
    numbers = count()

    def says(_, usual):
        if next(numbers) >= requests:
            raise ConnectionAbortedError
        return usual

    return says


def sampler_of(*addresses, **more):
    section = SamplingSection(servers=addresses, server_attempts=6, **more)
    return ServerSampler(SamplerSetup("models/tiny", PARAMETERS, section))


def requests(problems, n):
    return [SampleRequest(f"p{i}", f"{i}+{i}=", tuple(range(n)), 5) for i in range(problems)]


def test_every_sample_is_asked_for_with_its_own_seed(endpoints):
    sampler = sampler_of(endpoints[0].address + "/v1/", endpoints[1].address, batch_rows=4)
    drawn = list(sampler.sample(requests(5, 8)))
    assert len({(completion.problem_id, completion.index) for completion in drawn}) == 40
    for completion in drawn:
        prompt = f"{completion.problem_id[1:]}+{completion.problem_id[1:]}="
        seed = sample_seed(5, completion.problem_id, completion.index)
        assert completion.text == text_for(prompt, seed)
        assert (completion.tokens, completion.finish_reason, completion.seed) == (3, "stop", 5)
    body = endpoints[0].bodies[0]
    asked = {key: body[key] for key in body if key not in ("prompt", "seed")}
    assert asked == {
        "model": "tiny",
        "n": 1,
        "max_tokens": 16,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": ["</SOLUTION>"],
        "include_stop_str_in_output": True,
        "add_special_tokens": False,
    }
    shares = [len(endpoint.bodies) for endpoint in endpoints]
    assert sum(shares) == 40
    assert min(shares) >= 10


def test_servers_are_asked_on_while_the_caller_does_something_else(endpoints):
    drawn = sampler_of(endpoints[0].address, batch_rows=1).sample(requests(1, 8))
    next(drawn)  # and nothing more: the caller is storing it
    until = time.monotonic() + 20
    while len(endpoints[0].bodies) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(endpoints[0].bodies) == 3
    assert len(list(drawn)) == 7


def test_requests_that_fail_are_tried_again(endpoints):
    for endpoint in endpoints:
        endpoint.says = busy(3)
    sampler = sampler_of(*(e.address for e in endpoints), batch_rows=3)
    drawn = list(sampler.sample(requests(3, 5)))
    counts = Counter((completion.problem_id, completion.index) for completion in drawn)
    assert len(counts) == 15
    assert max(counts.values()) == 1


def test_one_server_of_two_may_die(endpoints):
    endpoints[0].says = dying(4)
    sampler = sampler_of(*(e.address for e in endpoints), batch_rows=4)
    assert len(list(sampler.sample(requests(4, 10)))) == 40


def test_the_last_server_that_dies_is_named_and_the_rest_drawn_later(endpoints, tmp_path):
    samples = SampleSet(tmp_path, SampleIdentity("m", "t", {}, 5))
    prompts = {f"p{i}": f"{i}+{i}=" for i in range(4)}
    endpoints[0].says = dying(17)
    alone = sampler_of(endpoints[0].address, batch_rows=3)
    with pytest.raises(SamplingError, match=endpoints[0].address) as refusal:
        fill(samples, prompts, 10, alone)
    assert "same command" in str(refusal.value.next_step)
    kept = len(list(samples.completions()))
    assert 17 - 3 <= kept <= 17
    other = sampler_of(endpoints[1].address)
    assert fill(samples, prompts, 10, other) == 40 - kept
    keys = sorted((row.problem_id, row.index) for row in samples.completions())
    assert keys == [(problem, index) for problem in sorted(prompts) for index in range(10)]


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(SamplingError, match=r"127\.0\.0\.1:9"):
        sampler_of("http://127.0.0.1:9")


class TestServer(SamplerContract):
    @pytest.fixture(autouse=True)
    def _endpoints(self, endpoints):
        self.addresses = [endpoint.address for endpoint in endpoints]

    def make(self):
        section = SamplingSection(servers=tuple(self.addresses), batch_rows=4)
        return ServerSampler(SamplerSetup("tiny", self.parameters, section))


def test_closing_ends_the_connections(endpoints):
    with sampler_of(endpoints[0].address) as sampler:
        assert len(list(sampler.sample(requests(1, 1)))) == 1
    with pytest.raises(SamplingError, match="closed"):
        list(sampler.sample(requests(1, 1)))
