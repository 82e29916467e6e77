"""Sampling by OpenAI-compatible servers, such as `vllm serve`."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, sample_seed
from sage_cli.sampling.server.client import (
    API_KEY_VARIABLE,
    BadPromptError,
    Balance,
    ServerClient,
)
from sage_cli.sampling.server.forms import Chat, Completions, Form, sampling_fields, served_model
from sage_cli.sampling.server.http import Login, ServerHttp, UnusableAnswerError
from sage_cli.store.samples.completion import FINISH_REASONS, Completion

HOPELESS = 20
"""Refused problems before any answer, or unusable answers in a row, after which sampling fails:
then the cause is the server, not the prompt or the sample."""
ANSWER_BYTES, TOKEN_BYTES = 2**20, 2**10
"""The bound on an answer: a constant, and a term for each requested token."""


class ServerSampler(Sampler):
    """Sends one request per sample, at most `batch_rows` at once, to the least busy server.

    Each server must list the model, or what `server_model` calls it. Raises SamplingError for a
    server that is not reachable or serves another model.
    """

    def __init__(self, setup: SamplerSetup) -> None:
        section = setup.section
        if not section.servers:
            raise SamplingError(
                "backend 'server' has no server to ask",
                "name one: --set sampling.servers='[\"http://localhost:8000\"]'",
            )
        key = os.environ.get(API_KEY_VARIABLE)
        logins = [Login.of(server, key) for server in section.servers]
        self._logins = {login.address: login for login in logins}
        self._http = ServerHttp(section.timeout_s, section.batch_rows)
        self._parameters, self._section = setup.parameters, section
        chat = section.server_form == "chat"
        self._form: Form = Chat(setup.prompt) if chat else Completions()
        self._balance = Balance(tuple(self._logins))
        self._models = {
            server: served_model(self._http, login, str(setup.model), section.server_model)
            for server, login in self._logins.items()
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
        client = ServerClient(
            self._http, self._logins, self._balance, self._section, self._most_bytes
        )
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
                return self._completion(client, request, index)
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
                client.give_up()
                pool.shutdown(cancel_futures=True)
        if refused or lacking:
            raise RefusedPromptsError({**lacking, **refused})

    @property
    def _most_bytes(self) -> int:
        """The bound on an answer: a token is some letters, each of which may be escaped."""
        return ANSWER_BYTES + TOKEN_BYTES * self._parameters.max_tokens

    def _completion(self, client: ServerClient, request: SampleRequest, index: int) -> Completion:
        fields = {
            **sampling_fields(self._parameters),
            **self._form.fields(request.prompt),
            "seed": sample_seed(request.seed, request.problem_id, index),
        }

        def read(answer: Any) -> Completion:
            choice = answer["choices"][0]
            text, stop = self._form.text(choice), self._parameters.stop
            matched = choice.get("stop_reason") or choice.get("matched_stop")
            if stop is not None and matched == stop and not text.endswith(stop):
                text += stop
            reason = choice["finish_reason"]
            if reason not in FINISH_REASONS:
                raise ValueError(f"finish_reason is {reason!r:.80}, and not stop or length")
            tokens = answer["usage"]["completion_tokens"]
            # one more if the server counts the end of the sequence
            if type(tokens) is not int or not 0 <= tokens <= self._parameters.max_tokens + 1:
                raise ValueError(f"completion_tokens is {tokens!r:.80}")
            return Completion(request.problem_id, index, request.seed, text, tokens, reason)

        return client.post(
            self._form.path, lambda server: {"model": self._models[server], **fields}, read
        )
