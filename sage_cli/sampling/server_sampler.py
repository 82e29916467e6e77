"""Any OpenAI-compatible endpoint: one or several servers, `vllm serve` above all."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import httpx

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.balance import Balance
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplingParameters, sample_seed
from sage_cli.sampling.served_model import served_model
from sage_cli.sampling.server_client import (
    API_KEY_VARIABLE,
    BadPromptError,
    Patience,
    ServerClient,
)
from sage_cli.sampling.server_forms import Completions, Form, sampling_fields
from sage_cli.store.completion import Completion

HOPELESS = 20
"""Problems that are refused before any is answered: then it isn't the prompts."""

IDLE_S = 2.0
"""A connection that was idle for longer isn't used again: uvicorn, below vLLM and SGLang, closes it
after 5 s, and a request that meets that would count as the server's failure."""


class ServerSampler(Sampler):
    """Sends one request per sample, at most `in_flight` at once, to the least busy server.

    `meant` is the model's folder or name of the Hub, with which each server's own word is
    compared; `model` is what servers call it, where they can't tell. Raises SamplingError for a
    server that isn't there or serves another model.
    """

    def __init__(
        self,
        servers: Sequence[str],
        parameters: SamplingParameters,
        *,
        meant: str,
        model: str | None = None,
        form: Form | None = None,
        in_flight: int = 256,
        timeout_s: float = 600,
        patience: Patience | None = None,
    ) -> None:
        if not servers:
            raise SamplingError(
                "backend 'server' has no server to ask",
                "name one: --set sampling.servers='[\"http://localhost:8000\"]'",
            )
        key = os.environ.get(API_KEY_VARIABLE)
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=min(10.0, timeout_s)),
            limits=httpx.Limits(
                max_connections=in_flight,
                max_keepalive_connections=in_flight,
                keepalive_expiry=IDLE_S,
            ),
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )
        self._parameters, self._in_flight = parameters, in_flight
        self._form, self._patience = form or Completions(), patience or Patience()
        self._balance = Balance([server.rstrip("/").removesuffix("/v1") for server in servers])
        self._models = {
            server: served_model(self._http, server, meant, model)
            for server in self._balance.servers
        }

    @property
    def provenance(self) -> Mapping[str, str]:
        """The endpoint's kind and the model it says it serves; a server tells no more."""
        served = ", ".join(dict.fromkeys(self._models.values()))
        return {"engine": "server", "served_model": served, "path": self._form.path}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as they arrive.

        Raises SamplingError, which names a server that stays away, and at the end
        RefusedPromptsError where servers can't answer some of the prompts.
        """
        if self._http.is_closed:
            raise SamplingError("the server sampler was closed")
        client = ServerClient(self._http, self._balance, self._patience)
        refused: dict[str, str] = {}
        waiting = (
            (request, index)
            for request in requests
            for index in request.indices
            if request.problem_id not in refused
        )
        arrived: queue.SimpleQueue[Future[Completion | None]] = queue.SimpleQueue()
        failed = threading.Event()

        def one(request: SampleRequest, index: int) -> Completion | None:
            if failed.is_set() or request.problem_id in refused:
                return None
            try:
                return self._completion(client, request, index, refused)
            except SamplingError:
                failed.set()
                raise

        with ThreadPoolExecutor(self._in_flight) as pool:

            def send(count: int) -> int:
                batch = list(islice(waiting, count))
                for request, index in batch:
                    future = pool.submit(one, request, index)
                    future.add_done_callback(arrived.put)
                return len(batch)

            try:
                # as many again wait in line: no slot is idle while the caller stores what arrived
                pending, answered = send(2 * self._in_flight), 0
                while pending:
                    completion = arrived.get().result()
                    pending += send(1) - 1
                    if completion is not None:
                        answered += 1
                        yield completion
                    elif not answered and len(refused) >= HOPELESS:
                        break
            finally:
                client.give_up()
                pool.shutdown(cancel_futures=True)
        if refused:
            raise RefusedPromptsError(refused)

    def _completion(
        self, client: ServerClient, request: SampleRequest, index: int, refused: dict[str, str]
    ) -> Completion | None:
        """One sample; None where its prompt is refused, which `refused` tells by problem."""
        fields = {
            **sampling_fields(self._parameters),
            **self._form.asked(request.prompt),
            "seed": sample_seed(request.seed, request.problem_id, index),
        }

        def read(answer: Any) -> Completion:
            choice = answer["choices"][0]
            text, stop = self._form.text(choice), self._parameters.stop
            matched = choice.get("stop_reason") or choice.get("matched_stop")
            if stop is not None and matched == stop and not text.endswith(stop):
                text += stop
            reason = "length" if choice["finish_reason"] == "length" else "stop"
            tokens = int(answer["usage"]["completion_tokens"])
            return Completion(request.problem_id, index, request.seed, text, tokens, reason)

        try:
            return client.post(
                self._form.path, lambda server: {"model": self._models[server], **fields}, read
            )
        except BadPromptError as error:
            refused[request.problem_id] = str(error)
            return None
