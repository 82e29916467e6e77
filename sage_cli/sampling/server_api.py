"""OpenAI's API over HTTP: every request has a deadline, every answer a bound on its size."""

from __future__ import annotations

import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import httpcore
import httpx

from sage_cli.errors import SamplingError
from sage_cli.json_value import json_value
from sage_cli.problems.template import chat_messages
from sage_cli.sampling.sampler import NO_PENALTIES, SamplingParameters
from sage_cli.settings.passwords import password_of, require_no_secrets
from sage_cli.settings.prompt import PromptSection
from sage_cli.solution_text import CLOSE, OPEN

CONNECT_S = 10.0
IDLE_S = 2.0
"""Idle connections are closed after this time: uvicorn, in vLLM and SGLang, closes them after 5 s,
and a request at that moment would count as the server's failure."""
LIST_BYTES = 16 * 2**20
"""Bound on a server's list of models; routers list some hundred kB."""


class UnusableAnswerError(ValueError):
    """A server's answer cannot be used."""


@dataclass(frozen=True)
class Answer:
    """A server's answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def beginning(self) -> str:
        """The first characters, for messages."""
        return " ".join(self.content[:300].decode(errors="replace").split()) or "nothing"


@dataclass(frozen=True)
class Login:
    """A server's address without user and password, and the headers that authenticate."""

    address: str
    headers: Mapping[str, str]

    @classmethod
    def parse(cls, typed: str, key: str | None = None) -> Login:
        """Return the login of a typed address; `key` is used if the address names no user.

        Raises SamplingError for an invalid address.
        """
        require_no_secrets(typed)
        address = typed
        try:
            url = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise SamplingError(
                f"'{address}' is not a server's address: {error}", "for example http://HOST:8000"
            ) from None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if url.userinfo:
            user = f"{url.username}:{password_of(address) or ''}"
            headers = {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
            address = str(url.copy_with(userinfo=b""))
        return cls(address.rstrip("/").removesuffix("/v1"), headers)


class ServerHttp:
    """Connections to servers. `timeout_s` bounds a request including its answer."""

    def __init__(self, timeout_s: float, connections: int = 1) -> None:
        self._timeout_s, self._deadline = timeout_s, _Deadline()
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            limits=httpx.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=IDLE_S,
            ),
            headers={"Accept-Encoding": "identity"},
        )
        # httpx's own limit is per read: a server that sends single bytes would never reach it
        for transport in (self._client._transport, *self._client._mounts.values()):
            if isinstance(transport, httpx.HTTPTransport):
                transport._pool._network_backend = _Backend(self._deadline)

    @property
    def is_closed(self) -> bool:
        """Return True if the connections are closed."""
        return self._client.is_closed

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, login: Login, path: str, most_bytes: int, body: Any = None) -> Answer:
        """Return a server's answer to a POST of `body`, or to a GET without one.

        Raises httpx.RequestError if no complete answer comes in time, UnusableAnswerError for one
        that is longer than `most_bytes` or encoded.
        """
        method, url = "GET" if body is None else "POST", f"{login.address}{path}"
        self._deadline.until_s = time.monotonic() + self._timeout_s
        headers = dict(login.headers)
        try:
            with self._client.stream(method, url, json=body, headers=headers) as response:
                content = _content(response, most_bytes)
                return Answer(response.status_code, dict(response.headers), content)
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            raise httpx.ReadTimeout(
                f"no whole answer in {self._timeout_s:g} s (sampling.timeout_s)"
            ) from None


def _content(response: httpx.Response, most_bytes: int) -> bytes:
    """Return the body, read until it is complete or too long."""
    encoding, content = response.headers.get("Content-Encoding", "identity"), bytearray()
    if encoding != "identity":
        raise UnusableAnswerError(f"its answer is encoded as {encoding!r}, which was not requested")
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > most_bytes:
            raise UnusableAnswerError(f"its answer is longer than {most_bytes:,} bytes")
    return bytes(content)


class _Deadline(threading.local):
    """The end of this thread's request, by the monotonic clock."""

    until_s: float = inf

    def left_s(self, timeout_s: float | None) -> float | None:
        """Return `timeout_s` or the time left if that is shorter. Raises httpcore.ReadTimeout."""
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise httpcore.ReadTimeout
        return min(left_s, inf if timeout_s is None else timeout_s)


class _Backend(httpcore.NetworkBackend):
    """httpcore's connections with waits that end by the deadline."""

    def __init__(self, deadline: _Deadline) -> None:
        self._deadline, self._inner = deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout)
        inner = self._inner.connect_tcp(host, port, left_s, local_address, socket_options)
        return _Stream(inner, self._deadline)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left_s(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left_s), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class Completions:
    """`/v1/completions`: the prompt is the whole text, tokenised without special tokens."""

    path = "/v1/completions"

    def fields(self, prompt: str) -> dict[str, Any]:
        """Return the part of a request's body with the prompt."""
        return {"prompt": prompt, "add_special_tokens": False}

    def text(self, choice: Any) -> str:
        """Return the completion in one of an answer's choices.

        Raises LookupError, TypeError or ValueError if it has none.
        """
        return _text(choice["text"])


class Chat(Completions):
    """`/v1/chat/completions`: the prompt is the user's turn; the server applies its template."""

    path = "/v1/chat/completions"

    def __init__(self, prompt: PromptSection) -> None:
        self._prompt = prompt

    def fields(self, prompt: str) -> dict[str, Any]:
        """Return the messages, and the template's arguments if there are any."""
        body: dict[str, Any] = {"messages": chat_messages(self._prompt, prompt)}
        if self._prompt.chat_template_kwargs:
            body["chat_template_kwargs"] = self._prompt.chat_template_kwargs
        return body

    def text(self, choice: Any) -> str:
        """Return the assistant's turn, after the thought that the server separated from it."""
        message = choice["message"]
        thought = message.get("reasoning_content") or message.get("reasoning")
        content = message["content"]
        if not thought:
            return _text(content)
        # without content it may have ended inside the thought
        return OPEN + _text(thought) + (f"{CLOSE}\n{_text(content)}" if content else "")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is {value!r:.80}")
    return value


def sampling_fields(p: SamplingParameters, stop: str | None) -> dict[str, Any]:
    """Return all fields that decide the distribution, and where the server stops.

    A server takes missing ones from the model's generation_config.json. `top_k` -1 is
    off for vLLM, SGLang and llama.cpp alike.
    """
    return {
        "n": 1,
        **p.distribution,
        "top_k": p.top_k if p.top_k > 0 else -1,
        **NO_PENALTIES,
        "stop": [] if stop is None else [stop],
        "include_stop_str_in_output": True,
    }


def begins_prompts(http: ServerHttp, login: Login, model: str, bos: str) -> bool:
    """Return True if a server puts the first token before a prompt that has it already."""
    body = {"model": model, "prompt": bos, "add_special_tokens": False, "max_tokens": 1}
    try:
        answer = http.ask(login, Completions.path, LIST_BYTES, body)
        return bool(json_value(answer.content)["usage"]["prompt_tokens"] > 1)
    except (httpx.RequestError, ValueError, LookupError, TypeError):
        return False


def served_model(
    http: ServerHttp,
    login: Login,
    meant: str,
    name: str | None,
    setting: str = "sampling.server_model",
) -> str:
    """Return a server's name of the intended model `meant`, a folder or a name of the Hub.

    Raises SamplingError for a server that does not list it, unless the user has given the server's
    name of the model (`name`) in `setting`.
    """
    server = login.address
    try:
        answer = http.ask(login, "/v1/models", LIST_BYTES)
    except (httpx.RequestError, UnusableAnswerError) as error:
        raise SamplingError(
            f"{server} didn't answer: {error or type(error).__name__}",
            "start it, or choose another",
        ) from error
    models = _listed(answer)
    names = [str(model["id"]) for model in models]
    if name is not None:
        if names and name not in names:
            raise SamplingError(
                f"{server} serves {', '.join(names)}, and not '{name}'",
                f"choose one of those with --set {setting}=NAME",
            )
        return name
    for model in models:
        if any(_same(str(model.get(key)), meant) for key in ("id", "root")):
            return str(model["id"])
    tells = f"serves {', '.join(names)}" if names else "doesn't say which model it serves"
    raise SamplingError(
        f"{server} {tells}, but {meant} is expected",
        "serve that one; or, to take what is served under a name of its own, say so with "
        f"--set {setting}={names[0] if names else 'NAME'}",
    )


def _listed(answer: Answer) -> list[dict[str, Any]]:
    """Return the models in a server's list; none if it has no list or a malformed one."""
    try:
        listed = json_value(answer.content)["data"] if 200 <= answer.status < 300 else []
    except (ValueError, LookupError, TypeError):
        return []
    models = listed if isinstance(listed, list) else []
    return [model for model in models if isinstance(model, dict) and "id" in model]


def _same(told: str, meant: str) -> bool:
    """Return True if two names are equal or lead to one folder of this machine."""
    return told == meant or (Path(meant).is_dir() and Path(told).resolve() == Path(meant).resolve())
