"""What servers may answer instead of a completion, and which model they may serve."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from endpoint import Answer, Endpoint, serving, text_for

from sage_cli.config.model import PromptSection
from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling import server_client
from sage_cli.sampling.contract import SamplerContract
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplingParameters, sample_seed
from sage_cli.sampling.server_client import Patience
from sage_cli.sampling.server_forms import Chat
from sage_cli.sampling.server_sampler import HOPELESS, ServerSampler
from sage_cli.store.samples import SampleIdentity, SampleSet

OFF = SamplingParameters(0.7, 1.0, 0, 0.0, 16, None)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_client, "FIRST_PAUSE_S", 0.01)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with serving(made):
        yield made


def sampler_of(endpoint: Endpoint, **more: Any) -> ServerSampler:
    given = {"meant": "tiny", "in_flight": 4, "patience": Patience(attempts=4, total_s=5), **more}
    return ServerSampler([endpoint.address], OFF, **given)


def asked(*problems: str, n: int = 2) -> list[SampleRequest]:
    return [SampleRequest(problem, f"{problem}=", tuple(range(n)), 5) for problem in problems]


def without(*path: str) -> Any:
    """An endpoint's way of leaving a field out of its answers."""

    def says(_: dict[str, Any], usual: Answer) -> Answer:
        place = usual[1]
        for key in path[:-1]:
            place = place[int(key) if key.isdigit() else key]
        del place[path[-1]]
        return usual

    return says


def test_every_sampling_field_is_sent_also_where_it_is_off(endpoint: Endpoint) -> None:
    """`vllm serve` fills in what is left out from the model's generation_config.json."""
    list(sampler_of(endpoint).sample(asked("a", n=1)))
    (body,) = endpoint.bodies
    fields = {key: body[key] for key in body if key not in ("prompt", "seed", "model")}
    assert fields == {
        "n": 1,
        "max_tokens": 16,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [],
        "include_stop_str_in_output": True,
        "add_special_tokens": False,
    }


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (without("usage"), "'usage'"),
        (without("choices"), "'choices'"),
        (lambda _, usual: (200, {**usual[1], "choices": []}, {}), "IndexError"),
        (without("choices", "0", "text"), "'text'"),
        (lambda *_: (200, b"<html>be right back</html>", {}), "be right back"),
        (lambda *_: (200, b"", {}), "nothing"),
        (lambda *_: (200, b"[]", {}), "TypeError"),
        (lambda *_: (200, b"null", {}), "TypeError"),
    ],
    ids=["usage", "choices", "empty choices", "text", "HTML", "nothing", "a list", "null"],
)  # fmt: skip
def test_an_answer_that_holds_no_completion_is_named(
    endpoint: Endpoint, says: Any, said: str
) -> None:
    endpoint.says = says
    with pytest.raises(SamplingError, match=said) as refusal:
        list(sampler_of(endpoint, in_flight=1).sample(asked("a", n=1)))
    assert f"{endpoint.address} answered 200" in refusal.value.cause
    assert "holds no completion" in refusal.value.cause
    assert len(endpoint.bodies) == server_client.ATTEMPTS_AT_NONSENSE


def test_a_proxys_page_of_the_moment_is_got_over(endpoint: Endpoint) -> None:
    def says(_: dict[str, Any], usual: Answer) -> Answer:
        return (200, b"<html>starting</html>", {}) if len(endpoint.bodies) == 1 else usual

    endpoint.says = says
    assert len(list(sampler_of(endpoint, in_flight=1).sample(asked("a")))) == 2


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_prompt_that_is_too_long_does_not_stop_the_others(
    endpoint: Endpoint, tmp_path: Path, status: int
) -> None:
    def says(body: dict[str, Any], usual: Answer) -> Answer:
        long = body["prompt"] == "long="
        return (status, {"error": "maximum context length is 9 tokens"}, {}) if long else usual

    endpoint.says = says
    samples = SampleSet(tmp_path, SampleIdentity("m", "t", {}, 5))
    prompts = {name: f"{name}=" for name in ("a", "long", "b", "c")}
    with pytest.raises(RefusedPromptsError, match="1 problems have no samples") as refusal:
        fill(samples, prompts, 8, sampler_of(endpoint))
    assert list(refusal.value.reasons) == ["long"]
    assert "maximum context length" in refusal.value.reasons["long"]
    held = samples.inventory()
    assert held.count_missing(["a", "b", "c"], 8) == 0
    assert held.count_missing(["long"], 8) == 8
    asked_for_it = sum(body["prompt"] == "long=" for body in endpoint.bodies)
    assert asked_for_it <= 4 + 1  # those in flight; the others are not asked for
    endpoint.says = lambda _, usual: usual
    assert fill(samples, prompts, 8, sampler_of(endpoint)).drawn == 8


def test_where_every_prompt_is_refused_it_ends_soon(endpoint: Endpoint) -> None:
    endpoint.says = lambda *_: (400, {"error": "unknown field min_p"}, {})
    names = [f"p{number}" for number in range(500)]
    with pytest.raises(RefusedPromptsError, match="unknown field min_p"):
        list(sampler_of(endpoint).sample(asked(*names)))
    assert len(endpoint.bodies) <= 2 * (HOPELESS + 4)  # two samples of each problem


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_will_have_nobody_is_not_asked_again(endpoint: Endpoint, status: int) -> None:
    endpoint.says = lambda *_: (status, {"error": "no"}, {})
    with pytest.raises(SamplingError, match=f"answered {status}") as refusal:
        list(sampler_of(endpoint, in_flight=1).sample(asked("a")))
    assert "SAGE_SERVER_API_KEY" in str(refusal.value.next_step)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_a_server_is_left_alone_as_long_as_it_asks(endpoint: Endpoint, how: str) -> None:
    times: list[float] = []

    def says(_: dict[str, Any], usual: Answer) -> Answer:
        times.append(time.monotonic())
        # a date has whole seconds: two from now are at least one
        after = "1" if how == "seconds" else formatdate(time.time() + 2, usegmt=True)
        return (429, {"error": "slow"}, {"Retry-After": after}) if len(times) == 1 else usual

    endpoint.says = says
    list(sampler_of(endpoint, in_flight=1).sample(asked("a", n=1)))
    assert times[1] - times[0] > 0.9


def test_attempts_and_time_are_bounded_by_what_is_asked(endpoint: Endpoint) -> None:
    endpoint.says = lambda *_: (503, {"error": "busy"}, {})
    with pytest.raises(SamplingError, match=r"busy.*\(asked 2 times"):
        list(sampler_of(endpoint, in_flight=1, patience=Patience(2, 60)).sample(asked("a", n=1)))
    assert len(endpoint.bodies) == 2
    endpoint.says = lambda *_: (503, {"error": "busy"}, {"Retry-After": "3600"})
    with pytest.raises(SamplingError, match=r"\(asked 1 times"):
        list(sampler_of(endpoint, in_flight=1, patience=Patience(9, 60)).sample(asked("a", n=1)))


def test_a_server_of_another_model_is_refused(endpoint: Endpoint) -> None:
    endpoint.models = [{"id": "some/other-model", "root": "some/other-model"}]
    with pytest.raises(SamplingError, match=r"serves some/other-model, and tiny is meant") as no:
        sampler_of(endpoint)
    assert "sampling.server_model=some/other-model" in str(no.value.next_step)
    named = sampler_of(endpoint, model="some/other-model")
    list(named.sample(asked("a", n=1)))
    assert endpoint.bodies[0]["model"] == "some/other-model"
    with pytest.raises(SamplingError, match="serves some/other-model, and not 'third'"):
        sampler_of(endpoint, model="third")


@pytest.mark.parametrize("models", [None, [], "tiny", [{"root": "tiny"}], [3]])
def test_a_server_that_does_not_tell_is_refused_unless_its_model_is_named(
    endpoint: Endpoint, models: Any
) -> None:
    endpoint.models = models
    with pytest.raises(SamplingError, match="doesn't say which model it serves, and tiny is meant"):
        sampler_of(endpoint)
    assert len(list(sampler_of(endpoint, model="mine").sample(asked("a")))) == 2


def test_the_model_that_is_meant_is_found_by_name_root_or_folder(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    base = {"id": "base", "root": "Qwen/Base"}
    adapter = {"id": "adapter", "root": str(tmp_path / "runs" / "model"), "parent": "base"}
    endpoint.models = [base, adapter]
    for meant, called in (
        ("Qwen/Base", "base"), ("base", "base"), ("adapter", "adapter"), ("runs/model", "adapter"),
    ):  # fmt: skip
        endpoint.bodies.clear()
        list(sampler_of(endpoint, meant=meant).sample(asked("a", n=1)))
        assert endpoint.bodies[0]["model"] == called


def test_chat_sends_messages_and_leaves_the_template_to_the_server(endpoint: Endpoint) -> None:
    prompt = PromptSection(
        format="chat", system="Be brief.", chat_template_kwargs={"enable_thinking": False}
    )
    (one,) = sampler_of(endpoint, form=Chat(prompt)).sample(asked("a", n=1))
    assert one.text == text_for("a=", sample_seed(5, "a", 0))
    assert endpoint.paths == ["/v1/chat/completions"]
    (body,) = endpoint.bodies
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "a="},
    ]  # fmt: skip
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "prompt" not in body
    assert "add_special_tokens" not in body
    bare = Chat(PromptSection(format="chat", system=None)).asked("q")
    assert bare == {"messages": [{"role": "user", "content": "q"}]}


def test_reasoning_that_a_server_takes_out_of_the_text_is_put_before_it() -> None:
    chat = Chat(PromptSection(format="chat"))
    both = {"message": {"reasoning_content": "hm", "content": "so 3"}}
    assert chat.text(both) == "hm\nso 3"
    assert chat.text({"message": {"reasoning": "cut off", "content": None}}) == "cut off"
    assert chat.text({"message": {"content": "3"}}) == "3"


class TestChat(SamplerContract):
    @pytest.fixture(autouse=True)
    def _endpoint(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def make(self) -> Sampler:
        return ServerSampler(
            [self.endpoint.address], self.parameters, meant="tiny", in_flight=4,
            form=Chat(PromptSection(format="chat")),
        )  # fmt: skip


def test_what_one_server_puts_off_another_is_asked_at_once(endpoint: Endpoint) -> None:
    endpoint.says = lambda *_: (429, {"error": "slow"}, {"Retry-After": "3600"})
    other = Endpoint()
    with serving(other):
        addresses = [endpoint.address, other.address]
        sampler = ServerSampler(
            addresses, OFF, meant="tiny", in_flight=1, patience=Patience(attempts=4, total_s=60)
        )
        # one that waited for the first server would be out of patience
        assert len(list(sampler.sample(asked("a", "b")))) == 4
    assert len(endpoint.bodies) == 1
    assert len(other.bodies) == 4
