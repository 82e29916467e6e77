"""What servers may answer instead of a completion, and which model they may serve."""

import json
import re
import socket
import threading
import time
import tracemalloc
from base64 import b64encode
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate

import httpx
import pytest
from endpoint import Endpoint, serving, text_for

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.sampling import server as server_client
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters, sample_seed
from sage_cli.sampling.server import HOPELESS, ServerSampler
from sage_cli.sampling.server_api import Chat, Login, ServerHttp
from sage_cli.settings.passwords import VARIABLE
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.sample_set import SampleIdentity, SampleSet
from sage_cli.testing import SamplerContract

OFF = SamplingParameters(0.7, 1.0, 0, 0.0, 16, None)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(server_client, "FIRST_PAUSE_S", 0.01)


@pytest.fixture
def endpoint():
    made = Endpoint()
    with serving(made):
        yield made


def sampler_of(endpoint, **more):
    return asking(endpoint.address, **{"server_attempts": 4, "server_patience_s": 5, **more})


def asking(*servers, meant="tiny", prompt=None, **more):
    section = SamplingSection(**{"servers": servers, "batch_rows": 4, **more})
    return ServerSampler(SamplerSetup(meant, OFF, section, prompt=prompt or PromptSection()))


def asked(*problems, n=2):
    return [SampleRequest(problem, f"{problem}=", tuple(range(n)), 5) for problem in problems]


def drawn(sampler):
    """One sample of one problem."""
    return list(sampler.sample(asked("a", n=1)))


@pytest.fixture
def samples(tmp_path):
    return SampleSet(tmp_path, SampleIdentity("m", "t", {}, 5))


def answering(body):
    """An endpoint's way of answering 200 with this body, whatever it is asked."""
    return lambda *_: (200, body, {})


def test_every_sampling_field_is_sent_also_where_it_is_off(endpoint):
    """`vllm serve` fills in what is left out from the model's generation_config.json."""
    drawn(sampler_of(endpoint))
    (body,) = endpoint.bodies
    off = {
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "stop": [],
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    assert {key: body.get(key) for key in off} == off


def choice_with(**fields):
    """An endpoint's way of answering with another choice; `tokens` stands in `usage`."""

    def says(_, usual):
        if "tokens" in fields:
            usual[1]["usage"]["completion_tokens"] = fields["tokens"]
        changed = {key: value for key, value in fields.items() if key != "tokens"}
        usual[1]["choices"][0] |= changed
        return usual

    return says


COUNTED = {"completion_tokens": 3, "prompt_tokens": 1}
UNUSABLE = {
    "abort": (choice_with(finish_reason="abort"), "finish_reason is 'abort'"),
    "error": (choice_with(finish_reason="error"), "finish_reason is 'error'"),
    "filter": (choice_with(finish_reason="content_filter"), "finish_reason is 'content_filter'"),
    "no reason": (choice_with(finish_reason=None), "finish_reason is None"),
    "a list of reasons": (choice_with(finish_reason=["stop"]), r"finish_reason is \['stop'\]"),
    "no text": (choice_with(text=None), "text is None"),
    "a number": (choice_with(text=7), "text is 7"),
    "negative": (choice_with(tokens=-1), "completion_tokens is -1"),
    "huge": (choice_with(tokens=2**40), f"completion_tokens is {2**40}"),
    "a half": (choice_with(tokens=2.5), "completion_tokens is 2.5"),
    "infinity": (choice_with(tokens=float("inf")), "completion_tokens is inf"),
    "true": (choice_with(tokens=True), "completion_tokens is True"),
    "many digits": (answering(b'{"choices": 1%s}' % (b"0" * 9999)), "ValueError"),
    "deep": (answering(b"[" * 200_000), "nested too deeply"),
    "text of text": (answering({"choices": ["x"], "usage": {}}), "TypeError"),
    "no usage": (answering({"choices": [{"text": "x", "finish_reason": "stop"}]}), "'usage'"),
    "no choices": (answering({"usage": COUNTED}), "'choices'"),
    "empty choices": (answering({"choices": [], "usage": COUNTED}), "IndexError"),
    "no text at all": (answering({"choices": [{}], "usage": COUNTED}), "'text'"),
    "HTML": (
        answering(b"<html>be right back</html>"),
        "answered 200: .*be right back.*has no completion",
    ),
    "nothing": (answering(b""), "answered 200: .*nothing"),
    "a list": (answering(b"[]"), "TypeError"),
    "null": (answering(b"null"), "TypeError"),
    "encoded": (lambda *_: (200, b"{}", {"Content-Encoding": "gzip"}), "which was not requested"),
}


@pytest.mark.parametrize(("says", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_that_is_no_whole_sample_costs_that_sample_alone(endpoint, samples, says, said):
    """All others are stored, it is asked for again with a bound, and named."""
    bad = sample_seed(5, "b", 3)
    endpoint.says = lambda body, usual: says(body, usual) if body["seed"] == bad else usual
    prompts = {name: f"{name}=" for name in ("a", "b", "c")}
    with pytest.raises(RefusedPromptsError, match="1 problem lacks samples") as refusal:
        fill(samples, prompts, 8, sampler_of(endpoint))
    assert re.search(f"b: sample 3, seed 5: {endpoint.address} .*{said}", refusal.value.cause)
    assert "sampling.backend" in str(refusal.value.next_step)
    times = sum(body["seed"] == bad for body in endpoint.bodies)
    assert times == server_client.ATTEMPTS_AT_UNUSABLE
    held = samples.inventory()
    assert [held.count_missing([name], 8) for name in prompts] == [0, 1, 0]
    assert list(held.missing("b", 8)) == [3]
    endpoint.says = lambda _, usual: usual
    assert fill(samples, prompts, 8, sampler_of(endpoint)) == 1


def test_an_answer_that_is_broken_off_once_is_asked_for_again(endpoint):
    def says(body, usual):
        first = sum(one["seed"] == body["seed"] for one in endpoint.bodies) == 1
        return choice_with(finish_reason="abort", text="half")(body, usual) if first else usual

    endpoint.says = says
    rows = sampler_of(endpoint, batch_rows=1).sample(asked("a"))
    assert [row.text for row in rows] == [text_for("a=", sample_seed(5, "a", i)) for i in (0, 1)]


def test_length_is_kept_as_length(endpoint):
    endpoint.says = choice_with(finish_reason="length", text="", tokens=17)
    (one,) = drawn(sampler_of(endpoint))
    assert (one.finish_reason, one.text, one.tokens) == ("length", "", 17)


def test_a_server_that_answers_nothing_usable_any_more_is_given_up(endpoint):
    def says(_, usual):
        return (200, b"<html>oops</html>", {}) if len(endpoint.bodies) > 8 else usual

    endpoint.says = says
    arrived = []
    with pytest.raises(SamplingError, match=f"oops.*so were {HOPELESS} answers in a row"):
        arrived += sampler_of(endpoint).sample(asked(*map(str, range(100)), n=4))
    # what is in flight or waits in line is asked for beside the twenty
    assert len(endpoint.bodies) <= 8 + (HOPELESS + 8 + 4) * server_client.ATTEMPTS_AT_UNUSABLE


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("a\ud83dz", "a\ufffdz"), ("\ude00", "\ufffd"), ("\ud83d\ude00 \ud83d", "\U0001f600 \ufffd")],
)
def test_half_a_character_is_replaced_and_said_so(endpoint, samples, caplog, sent, kept):
    bad = sample_seed(5, "b", 1)

    def says(body, usual):
        return choice_with(text=sent)(body, usual) if body["seed"] == bad else usual

    endpoint.says = says
    assert fill(samples, {"a": "a=", "b": "b="}, 4, sampler_of(endpoint)) == 8
    texts = {(one.problem_id, one.index): one.text for one in samples.completions()}
    assert texts["b", 1] == kept
    assert texts["a", 1] == text_for("a=", sample_seed(5, "a", 1))
    assert "problem b, sample 1, seed 5" in caplog.text
    assert "U+FFFD" in caplog.text


def dripping(head, drop):
    """A server that answers `head` and then `drop` ten times a second; its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(head)
            for _ in range(600):
                connection.sendall(drop)
                time.sleep(0.1)

    def accept():
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"", b"H"),
    ],
    ids=["the body", "headers", "the first line"],
)
def test_a_server_that_drips_is_left_at_the_deadline(head, drop):
    """Each read succeeds, so that no time-out of a read is ever met."""
    listening, address = dripping(head, drop)
    http, began_s = ServerHttp(timeout_s=1.0), time.monotonic()
    with (
        listening,
        pytest.raises(httpx.ReadTimeout, match=r"whole answer in 1 s \(sampling.timeout_s\)"),
    ):
        http.ask(Login.parse(address), "/v1/models", 10**6)
    assert 0.9 < time.monotonic() - began_s < 20  # it would go on for a minute
    http.close()


def test_an_answer_without_end_is_cut_off(endpoint):
    """64 MiB of blanks: memory never holds them."""
    blanks = b" " * 2**26
    endpoint.says = answering(blanks)
    tracemalloc.start()
    with pytest.raises(RefusedPromptsError, match=r"longer than 1,064,960 bytes"):
        drawn(sampler_of(endpoint, batch_rows=1))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 2^20 + 16 x 2^10 bytes, some copies of them, and what the endpoint sends
    assert most < 2**23


def test_a_user_and_a_password_are_sent_and_named_nowhere(endpoint, monkeypatch):
    typed = endpoint.address.replace("http://", "http://ann@") + "/v1"
    monkeypatch.setenv(VARIABLE, json.dumps({typed: "s3c@ret"}))
    monkeypatch.setenv("SAGE_SERVER_API_KEY", "k3y")
    drawn(asking(typed))
    basic = b64encode(b"ann:s3c@ret").decode()
    assert set(endpoint.authorizations) == {f"Basic {basic}"}
    endpoint.authorizations.clear()
    drawn(sampler_of(endpoint))
    assert set(endpoint.authorizations) == {"Bearer k3y"}
    endpoint.says = lambda *_: (401, {"error": "no"}, {})
    with pytest.raises(SamplingError) as refusal:
        drawn(asking(typed))
    assert "s3c" not in str(refusal.value)
    with pytest.raises(SamplingError, match="is not a server's address:"):
        asking("http://h:port")


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_prompt_that_is_too_long_does_not_stop_the_others(endpoint, samples, status):
    def says(body, usual):
        long = body["prompt"] == "long="
        return (status, {"error": "maximum context length is 9 tokens"}, {}) if long else usual

    endpoint.says = says
    prompts = {name: f"{name}=" for name in ("a", "long", "b", "c")}
    with pytest.raises(RefusedPromptsError, match="1 problem lacks samples") as refusal:
        fill(samples, prompts, 8, sampler_of(endpoint))
    assert list(refusal.value.reasons) == ["long"]
    assert "maximum context length" in refusal.value.reasons["long"]
    held = samples.inventory()
    assert held.count_missing(["a", "b", "c"], 8) == 0
    assert held.count_missing(["long"], 8) == 8
    asked_for_it = sum(body["prompt"] == "long=" for body in endpoint.bodies)
    assert asked_for_it <= 4 + 1  # those in flight; the others are not asked for
    endpoint.says = lambda _, usual: usual
    assert fill(samples, prompts, 8, sampler_of(endpoint)) == 8


def test_where_every_prompt_is_refused_it_ends_soon(endpoint):
    endpoint.says = lambda *_: (400, {"error": "unknown field min_p"}, {})
    names = [f"p{number}" for number in range(500)]
    with pytest.raises(RefusedPromptsError, match="unknown field min_p"):
        list(sampler_of(endpoint).sample(asked(*names)))
    assert len(endpoint.bodies) <= 2 * (HOPELESS + 4)  # two samples of each problem


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_will_have_nobody_is_not_asked_again(endpoint, status):
    endpoint.says = lambda *_: (status, {"error": "no"}, {})
    with pytest.raises(SamplingError, match=f"answered {status}") as refusal:
        list(sampler_of(endpoint, batch_rows=1).sample(asked("a")))
    assert "SAGE_SERVER_API_KEY" in str(refusal.value.next_step)
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_a_server_is_left_alone_as_long_as_it_asks(endpoint, how):
    times = []

    def says(_, usual):
        times.append(time.monotonic())
        # a date has whole seconds: two from now are at least one
        after = "1" if how == "seconds" else formatdate(time.time() + 2, usegmt=True)
        return (429, {"error": "slow"}, {"Retry-After": after}) if len(times) == 1 else usual

    endpoint.says = says
    drawn(sampler_of(endpoint, batch_rows=1))
    assert times[1] - times[0] > 0.9


def test_attempts_and_time_are_bounded_by_what_is_asked(endpoint):
    for attempts, headers, times in ((2, {}, 2), (9, {"Retry-After": "3600"}, 1)):
        endpoint.bodies.clear()
        endpoint.says = lambda *_, headers=headers: (503, {"error": "busy"}, headers)
        with pytest.raises(SamplingError, match=rf"busy.*\(asked {times} times"):
            drawn(sampler_of(endpoint, server_attempts=attempts, server_patience_s=60))
        assert len(endpoint.bodies) == times


def test_a_server_of_another_model_is_refused(endpoint):
    endpoint.models = [{"id": "some/other-model", "root": "some/other-model"}]
    with pytest.raises(SamplingError, match=r"serves some/other-model, but tiny is expected") as no:
        sampler_of(endpoint)
    assert "sampling.server_model=some/other-model" in str(no.value.next_step)
    drawn(sampler_of(endpoint, server_model="some/other-model"))
    assert endpoint.bodies[0]["model"] == "some/other-model"
    with pytest.raises(SamplingError, match="serves some/other-model, and not 'third'"):
        sampler_of(endpoint, server_model="third")


@pytest.mark.parametrize("models", [None, [], "tiny", [{"root": "tiny"}], [3]])
def test_a_server_that_does_not_tell_is_refused_unless_its_model_is_named(endpoint, models):
    endpoint.models = models
    with pytest.raises(
        SamplingError, match="doesn't say which model it serves, but tiny is expected"
    ):
        sampler_of(endpoint)
    assert len(list(sampler_of(endpoint, server_model="mine").sample(asked("a")))) == 2


def test_the_model_that_is_meant_is_found_by_name_root_or_folder(endpoint, tmp_path, monkeypatch):
    (tmp_path / "runs" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    base = {"id": "base", "root": "Qwen/Base"}
    adapter = {"id": "adapter", "root": str(tmp_path / "runs" / "model"), "parent": "base"}
    endpoint.models = [base, adapter]
    for meant, called in (
        ("Qwen/Base", "base"),
        ("base", "base"),
        ("adapter", "adapter"),
        ("runs/model", "adapter"),
    ):
        endpoint.bodies.clear()
        drawn(sampler_of(endpoint, meant=meant))
        assert endpoint.bodies[0]["model"] == called


def test_chat_sends_messages_and_leaves_the_template_to_the_server(endpoint):
    prompt = PromptSection(
        format="chat", system="Be brief.", chat_template_kwargs={"enable_thinking": False}
    )
    (one,) = drawn(sampler_of(endpoint, prompt=prompt, server_form="chat"))
    assert one.text == text_for("a=", sample_seed(5, "a", 0))
    assert endpoint.paths == ["/v1/chat/completions"]
    (body,) = endpoint.bodies
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a="},
    ]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "prompt" not in body
    assert "add_special_tokens" not in body
    bare = Chat(PromptSection(format="chat", system=None)).fields("q")
    assert bare == {"messages": [{"role": "user", "content": "q"}]}


def test_reasoning_that_a_server_takes_out_of_the_text_is_put_before_it():
    chat = Chat(PromptSection(format="chat"))
    both = {"message": {"reasoning_content": "hm", "content": "so 3"}}
    assert chat.text(both) == "<think>hm</think>\nso 3"
    cut = {"message": {"reasoning": "cut off", "content": None}}
    assert chat.text(cut) == "<think>cut off"  # never right
    assert chat.text({"message": {"content": "3"}}) == "3"
    assert chat.text({"message": {"content": ""}}) == ""
    for nothing in (None, 3, ["3"]):
        with pytest.raises((TypeError, ValueError)):
            chat.text({"message": {"content": nothing}})


ANSWER = "<SOLUTION>3</SOLUTION>"
STOPPING = SamplingParameters(0.7, 1.0, 0, 0.0, 16, "</SOLUTION>")


def saying(text, reason="stop", **told):
    """An endpoint's way of answering so; `told` is what it says of the stop text."""
    choice = {"text": text, "finish_reason": reason, **told}
    return answering({"choices": [choice], "usage": COUNTED})


def stopping_at(endpoint, opened=None, bos="", **more):
    section = SamplingSection(servers=(endpoint.address,), batch_rows=1, **more)
    return ServerSampler(SamplerSetup("tiny", replace(STOPPING, opened=opened), section, bos=bos))


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (saying(ANSWER), ANSWER),
        (saying("<SOLUTION>3", stop_reason="</SOLUTION>"), ANSWER),
        (saying("<SOLUTION>3", matched_stop="</SOLUTION>"), ANSWER),
        # it reports, and the model ended without the tag
        (saying("<SOLUTION>3", stop_reason=None), "<SOLUTION>3"),
        (saying("<SOLUTION>3", "length"), "<SOLUTION>3"),
        (saying("no answer"), "no answer"),
        (saying(f"{ANSWER} and <SOLUTION>4", "length"), ANSWER),
    ],
)
def test_the_stop_text_is_in_the_answer(endpoint, says, text):
    endpoint.says = says
    (sampled,) = drawn(stopping_at(endpoint))
    assert sampled.text == text


def test_a_server_that_cuts_the_stop_text_and_says_nothing_is_refused(endpoint):
    endpoint.says = saying("<SOLUTION>3")
    with pytest.raises(SamplingError, match="which stop text it has cut off") as refused:
        drawn(stopping_at(endpoint))
    assert "sampling.stop_at_answer=false" in (refused.value.next_step or "")


def test_a_server_that_has_kept_it_once_is_believed(endpoint):
    texts = iter([ANSWER, "<SOLUTION>3"])
    endpoint.says = lambda *given: saying(next(texts))(*given)
    sampled = list(stopping_at(endpoint).sample(asked("a", n=2)))
    assert sorted(row.text for row in sampled) == ["<SOLUTION>3", ANSWER]


@pytest.mark.parametrize(
    ("opened", "written", "text"),
    [
        ("", f"<think>{ANSWER}</think>{ANSWER} on", f"<think>{ANSWER}</think>{ANSWER}"),
        ("<think>", f"{ANSWER}</think>{ANSWER} on", f"{ANSWER}</think>{ANSWER}"),
        ("<think>", ANSWER, ANSWER),
    ],
)
def test_a_server_is_asked_to_stop_at_no_text_that_a_thought_may_hold(
    endpoint, opened, written, text
):
    endpoint.says = saying(written, "length")
    (sampled,) = drawn(stopping_at(endpoint, opened))
    assert endpoint.bodies[0]["stop"] == []
    assert (sampled.text, sampled.finish_reason) == (text, "length" if text == written else "stop")


def test_a_chat_server_may_open_a_thought_that_nobody_knows_of(endpoint):
    drawn(stopping_at(endpoint, server_form="chat"))
    assert endpoint.bodies[0]["stop"] == []
    drawn(stopping_at(endpoint))
    assert endpoint.bodies[1]["stop"] == ["</SOLUTION>"]


@pytest.mark.parametrize(("counted", "sent"), [(1, "<s>1+1="), (2, "1+1="), (None, "<s>1+1=")])
def test_a_server_that_begins_prompts_itself_is_sent_them_without_their_first_token(
    endpoint, counted, sent
):
    """As llama.cpp does, whatever it is asked for; others are told not to."""

    def says(body, _):
        if body["prompt"] == "<s>":
            return 200, {"usage": {"prompt_tokens": counted} if counted else {}}, {}
        return saying("x")()  # type: ignore[no-any-return]

    endpoint.says = says
    list(stopping_at(endpoint, bos="<s>").sample([SampleRequest("a", "<s>1+1=", (0,), 5)]))
    assert endpoint.bodies[-1]["prompt"] == sent
    assert endpoint.bodies[-1]["add_special_tokens"] is False


class TestChat(SamplerContract):
    @pytest.fixture(autouse=True)
    def _endpoint(self, endpoint):
        self.endpoint = endpoint

    def make(self):
        address, chat = self.endpoint.address, PromptSection(format="chat")
        section = SamplingSection(servers=(address,), batch_rows=4, server_form="chat")
        return ServerSampler(SamplerSetup("tiny", self.parameters, section, prompt=chat))


def test_what_one_server_puts_off_another_is_asked_at_once(endpoint):
    endpoint.says = lambda *_: (429, {"error": "slow"}, {"Retry-After": "3600"})
    other = Endpoint()
    with serving(other):
        addresses = endpoint.address, other.address
        sampler = asking(*addresses, batch_rows=1, server_attempts=4, server_patience_s=60)
        # one that waited for the first server would be out of patience
        assert len(list(sampler.sample(asked("a", "b")))) == 4
    assert len(endpoint.bodies) == 1
    assert len(other.bodies) == 4
