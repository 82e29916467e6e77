"""Requests to servers that may fail: repeated elsewhere or later, then given up with an error."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

import httpx

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.json_value import json_value
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, sample_seed
from sage_cli.sampling.server_api import (
    Answer,
    Chat,
    Completions,
    Login,
    ServerHttp,
    UnusableAnswerError,
    begins_prompts,
    sampling_fields,
    served_model,
)
from sage_cli.solution_text import stop_end
from sage_cli.store.completion import FINISH_REASONS, Completion

REST_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
ATTEMPTS_AT_UNUSABLE = 3
"""An unusable answer may be a proxy's temporary page, or the server's answer to every request."""
API_KEY_VARIABLE = "SAGE_SERVER_API_KEY"
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABOUT_THE_PROMPT = frozenset({400, 413, 422})
HOPELESS = 20
"""Refused problems before any answer, or unusable answers in a row, after which sampling fails:
then the cause is the server, not the prompt or the sample."""
ANSWER_BYTES, TOKEN_BYTES = 2**20, 2**10
"""The bound on an answer: a constant, and a term for each requested token."""


class Balance:
    """Chooses the server with the fewest open requests; a failed one rests for a while.

    Safe to use from many threads. `clock` returns seconds.
    """

    def __init__(self, servers: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.servers, self._clock = tuple(servers), clock
        self._open = dict.fromkeys(self.servers, 0)
        self._rests_until_s = dict.fromkeys(self.servers, 0.0)
        self._asked_until_s = dict.fromkeys(self.servers, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def chosen(self) -> Iterator[str]:
        """Yield a server for one request, which counts as open until the block ends."""
        with self._lock:
            server = min(self.servers, key=self._rank)
            self._open[server] += 1
        try:
            yield server
        finally:
            with self._lock:
                self._open[server] -= 1

    def failed(self, server: str, asked_s: float = 0.0) -> None:
        """Pause requests to a server, so that others are used if there are any.

        `asked_s` is the pause that it requests.
        """
        with self._lock:
            now_s = self._clock()
            self._rests_until_s[server] = now_s + max(REST_S, asked_s)
            self._asked_until_s[server] = now_s + asked_s

    def all_rest(self) -> bool:
        """Return True if every server has failed recently."""
        with self._lock:
            return min(self._rests_until_s.values()) > self._clock()

    def asked_s(self) -> float:
        """Return the seconds until one of the servers may be asked, as they have requested."""
        with self._lock:
            return max(0.0, min(self._asked_until_s.values()) - self._clock())

    def _rank(self, server: str) -> tuple[float, int]:
        rest_s = max(0.0, self._rests_until_s[server] - self._clock())
        return rest_s, self._open[server]


class _NoAnswerError(Exception):
    """A server gave no answer, but another attempt may succeed.

    `rest_s` is the pause that the server requests; `unusable` marks an answer without a completion.
    """

    def __init__(self, why: str, rest_s: float = 0.0, *, unusable: bool = False) -> None:
        super().__init__(why)
        self.rest_s, self.unusable = rest_s, unusable


class BadPromptError(Exception):
    """A server cannot answer this prompt, however often it is sent."""


def _retry_after_s(answer: Answer) -> float:
    """Return the pause in seconds that a server requests, as a number or a date; else 0."""
    header = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


class ServerSampler(Sampler):
    """Sends one request per sample, at most `batch_rows` at once, to the least busy server.

    Each server must list the model, or what `server_model` calls it. Raises SamplingError for a
    server that is not reachable or serves another model.
    """

    def __init__(self, setup: SamplerSetup) -> None:
        section = setup.section
        if not section.servers:
            raise SamplingError(
                "sampling.backend is 'server', but no server is given",
                "for example --set sampling.servers='[\"http://localhost:8000\"]'",
            )
        key = os.environ.get(API_KEY_VARIABLE)
        logins = [Login.parse(server, key) for server in section.servers]
        self._logins = {login.address: login for login in logins}
        self._http = ServerHttp(section.timeout_s, section.batch_rows)
        self._parameters, self._section = setup.parameters, section
        self._answer_open, self._bos = setup.prompt.answer_open, setup.bos
        chat = section.server_form == "chat"
        self._form = Chat(setup.prompt) if chat else Completions()
        # a chat template that only the server knows may open a thought
        self._stop = None if chat else setup.parameters.engine_stop
        self._keeps_stop = False
        self._balance = Balance(tuple(self._logins))
        self._models = {
            server: served_model(self._http, login, str(setup.model), section.server_model)
            for server, login in self._logins.items()
        }
        self._begin_prompts = {
            server
            for server, login in self._logins.items()
            if self._bos and begins_prompts(self._http, login, self._models[server], self._bos)
        }

    @property
    def provenance(self) -> Mapping[str, str]:
        """The endpoint's kind and the name of the served model."""
        served = ", ".join(dict.fromkeys(self._models.values()))
        return {"engine": "server", "served_model": served, "path": self._form.path}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as they arrive.

        Raises SamplingError, which names a server without usable answers, and at the end
        RefusedPromptsError for prompts that servers cannot answer or gave no complete sample for.
        """
        if self._http.is_closed:
            raise SamplingError("the server sampler was closed")
        giving_up = threading.Event()  # set, it ends every wait for another attempt
        refused: dict[str, str] = {}
        lacking: dict[str, str] = {}
        waiting = (
            (request, index)
            for request in requests
            for index in request.indices
            if request.problem_id not in refused
        )
        arrived: queue.SimpleQueue[Future[Completion | UnusableAnswerError | None]]
        arrived = queue.SimpleQueue()
        failed = threading.Event()

        def sampled(request: SampleRequest, index: int) -> Completion | UnusableAnswerError | None:
            if failed.is_set() or request.problem_id in refused:
                return None
            try:
                return self._completion(request, index, giving_up)
            except BadPromptError as error:
                refused[request.problem_id] = str(error)
            except UnusableAnswerError as error:
                lacking[request.problem_id] = f"sample {index}, seed {request.seed}: {error}"
                return error
            except SamplingError:
                failed.set()
                raise
            return None

        with ThreadPoolExecutor(self._section.batch_rows) as pool:

            def send(count: int) -> int:
                batch = list(islice(waiting, count))
                for request, index in batch:
                    future = pool.submit(sampled, request, index)
                    future.add_done_callback(arrived.put)
                return len(batch)

            try:
                # as many again are queued: no slot is idle while the caller stores completions
                pending, answered, unusable = send(2 * self._section.batch_rows), 0, 0
                while pending:
                    outcome = arrived.get().result()
                    pending += send(1) - 1
                    if isinstance(outcome, Completion):
                        answered, unusable = answered + 1, 0
                        yield outcome
                    elif outcome is not None:
                        unusable += 1
                        if unusable >= HOPELESS:
                            raise SamplingError(
                                f"{outcome}; so were {unusable} answers in a row",
                                "check the server's answers, then run the same command again: "
                                "stored samples are kept",
                            )
                    elif not answered and len(refused) >= HOPELESS:
                        break
            finally:
                giving_up.set()
                pool.shutdown(cancel_futures=True)
        if refused or lacking:
            raise RefusedPromptsError({**lacking, **refused})

    @property
    def _most_bytes(self) -> int:
        """The bound on an answer: a token is some letters, each of which may be escaped."""
        return ANSWER_BYTES + TOKEN_BYTES * self._parameters.max_tokens

    def _completion(
        self, request: SampleRequest, index: int, giving_up: threading.Event
    ) -> Completion:
        fields = {
            **sampling_fields(self._parameters, self._stop),
            "seed": sample_seed(request.seed, request.problem_id, index),
        }
        opened = self._parameters.opened or ""

        def body(server: str) -> dict[str, Any]:
            twice = self._bos if server in self._begin_prompts else ""
            prompt = self._form.fields(request.prompt.removeprefix(twice))
            return {"model": self._models[server], **fields, **prompt}

        def read(answer: Any) -> Completion:
            choice = answer["choices"][0]
            text, reason = self._with_stop(choice), choice["finish_reason"]
            if (end := stop_end(opened + text, self._parameters.stop)) is not None:
                text, reason = text[: end - len(opened)], "stop"
            if reason not in FINISH_REASONS:
                raise ValueError(f"finish_reason is {reason!r:.80}, and not stop or length")
            tokens = answer["usage"]["completion_tokens"]
            # one more if the server counts the end of the sequence
            if type(tokens) is not int or not 0 <= tokens <= self._parameters.max_tokens + 1:
                raise ValueError(f"completion_tokens is {tokens!r:.80}")
            return Completion(request.problem_id, index, request.seed, text, tokens, reason)

        return self._post(body, read, giving_up)

    def _post(
        self,
        body_for: Callable[[str], dict[str, Any]],
        read: Callable[[Any], Completion],
        giving_up: threading.Event,
    ) -> Completion:
        """Return `read` of the JSON that the least busy server answers to `body_for(server)`.

        `read` raises ValueError, LookupError or TypeError for an unusable answer. That is repeated,
        as for a server that is busy or gone. Raises BadPromptError for a prompt that cannot be
        answered, UnusableAnswerError if answers have no completion, SamplingError at the end of
        patience.
        """
        began, pause_s, attempt = time.monotonic(), FIRST_PAUSE_S, 1
        attempts, patience_s = self._section.server_attempts, self._section.server_patience_s
        while True:
            if asked_s := self._balance.asked_s():  # the servers have told other requests to wait
                giving_up.wait(min(asked_s, patience_s))
            with self._balance.chosen() as server:
                try:
                    return self._ask(server, body_for(server), read)
                except _NoAnswerError as error:
                    failure = error
            if failure.unusable:
                attempts = min(attempts, ATTEMPTS_AT_UNUSABLE)
            self._balance.failed(server, failure.rest_s)
            all_rest = self._balance.all_rest()  # else another server is asked at once
            wait_s = max(pause_s, self._balance.asked_s()) if all_rest else 0.0
            spent_s = time.monotonic() - began
            if attempt >= attempts or spent_s + wait_s > patience_s:
                break
            if giving_up.wait(wait_s):
                break
            attempt, pause_s = attempt + 1, min(2 * pause_s, LONGEST_PAUSE_S)
        failed = f"{server} {failure} (asked {attempt} times in {spent_s:.0f} s)"
        if failure.unusable:
            raise UnusableAnswerError(failed)
        raise SamplingError(
            failed,
            "start the server again and run the same command: stored samples are kept; "
            "sampling.server_attempts and sampling.server_patience_s bound the attempts",
        )

    def _ask(
        self, server: str, body: dict[str, Any], read: Callable[[Any], Completion]
    ) -> Completion:
        """Make one attempt. Raises _NoAnswerError if another one may help."""
        try:
            login, path = self._logins[server], self._form.path
            answer = self._http.ask(login, path, self._most_bytes, body)
        except httpx.RequestError as error:
            raise _NoAnswerError(f"didn't answer: {error or type(error).__name__}") from None
        except UnusableAnswerError as error:
            raise _NoAnswerError(f"can't be understood: {error}", unusable=True) from None
        answered = f"answered {answer.status}: {answer.beginning}"
        if 200 <= answer.status < 300:
            try:
                return read(json_value(answer.content))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise _NoAnswerError(
                    f"{answered}, which has no completion ({type(error).__name__}: {error})",
                    _retry_after_s(answer),
                    unusable=True,
                ) from None
        if answer.status in _ABOUT_THE_PROMPT:
            raise BadPromptError(f"{server} {answered}")
        if answer.status not in _TRY_AGAIN:
            raise SamplingError(
                f"{server} {answered}",
                f"check its address, the model's name and ${API_KEY_VARIABLE}",
            )
        raise _NoAnswerError(answered, _retry_after_s(answer))

    def _with_stop(self, choice: Any) -> str:
        """Return the completion in one of an answer's choices, with the stop text that ended it.

        Raises SamplingError for a server that cuts it off and doesn't say so: an answer would look
        unclosed.
        """
        text, stop = self._form.text(choice), self._stop
        if stop is None or text.endswith(stop):
            self._keeps_stop = self._keeps_stop or stop is not None
            return text
        told = [choice[key] for key in ("stop_reason", "matched_stop") if key in choice]
        if stop in told:
            return text + stop
        is_cut = choice["finish_reason"] == "stop" and text.rfind(self._answer_open) > text.rfind(
            stop
        )
        if is_cut and not (told or self._keeps_stop):
            raise SamplingError(
                f"a server ended an answer by itself after {self._answer_open}, and says neither "
                f"{stop} nor which stop text it has cut off: {text[-60:]!r}",
                "use --set sampling.stop_at_answer=false, with which it sends whole texts",
            )
        return text
