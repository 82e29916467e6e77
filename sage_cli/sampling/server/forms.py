"""OpenAI's API as it is asked: the served models, completions of a prompt, and chat messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import httpx

from sage_cli.errors import SamplingError
from sage_cli.json_value import json_value
from sage_cli.problems.template import chat_messages
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.sampling.server.http import (
    LIST_BYTES,
    Answer,
    Login,
    ServerHttp,
    UnusableAnswerError,
)
from sage_cli.settings.sections.model import PromptSection


class Form(Protocol):
    """A form of requests and their answers."""

    path: str

    def fields(self, prompt: str) -> dict[str, Any]:
        """Return the part of a request's body with the prompt."""
        ...

    def text(self, choice: Any) -> str:
        """Return the completion in one of an answer's choices.

        Raises LookupError, TypeError or ValueError if it has none.
        """
        ...


class Completions(Form):
    """`/v1/completions`: the prompt is the whole text, tokenised without special tokens."""

    path = "/v1/completions"

    def fields(self, prompt: str) -> dict[str, Any]:
        """Return the text itself."""
        return {"prompt": prompt, "add_special_tokens": False}

    def text(self, choice: Any) -> str:
        """Return the text after the prompt."""
        return _text(choice["text"])


class Chat(Form):
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
        """Return the assistant's turn, after the reasoning that the server separated from it."""
        message = choice["message"]
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        parts = [part for part in (reasoning, message["content"]) if part is not None]
        if not parts:
            raise ValueError("a message without content")
        return "\n".join(part for part in map(_text, parts) if part)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is {value!r:.80}")
    return value


def sampling_fields(p: SamplingParameters) -> dict[str, Any]:
    """Return all fields that decide the distribution.

    A server takes missing ones from the model's generation_config.json. `top_k` -1 is
    off for vLLM, SGLang and llama.cpp alike.
    """
    return {
        "n": 1,
        "max_tokens": p.max_tokens,
        "temperature": p.temperature,
        "top_p": p.top_p,
        "top_k": p.top_k if p.top_k > 0 else -1,
        "min_p": p.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [] if p.stop is None else [p.stop],
        "include_stop_str_in_output": True,
    }


def served_model(
    http: ServerHttp,
    login: Login,
    meant: str,
    named: str | None,
    setting: str = "sampling.server_model",
) -> str:
    """Return a server's name of the intended model `meant`, a folder or a name of the Hub.

    Raises SamplingError for a server that does not list it, unless the user has given the server's
    name of the model (`named`) in `setting`.
    """
    server = login.address
    try:
        answer = http.ask(login, "/v1/models", LIST_BYTES)
    except (httpx.RequestError, UnusableAnswerError) as error:
        raise SamplingError(
            f"{server} didn't answer: {error or type(error).__name__}", "start it, or name another"
        ) from error
    models = _listed(answer)
    names = [str(model["id"]) for model in models]
    if named is not None:
        if names and named not in names:
            raise SamplingError(
                f"{server} serves {', '.join(names)}, and not '{named}'",
                f"name one of those with --set {setting}=NAME",
            )
        return named
    for model in models:
        if any(_same(str(model.get(key)), meant) for key in ("id", "root")):
            return str(model["id"])
    tells = f"serves {', '.join(names)}" if names else "doesn't say which model it serves"
    raise SamplingError(
        f"{server} {tells}, and {meant} is meant",
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
