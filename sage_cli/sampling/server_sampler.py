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

from sage_cli.errors import SamplingError
from sage_cli.sampling.balance import Balance
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplingParameters, sample_seed
from sage_cli.store.completion import Completion

ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
API_KEY_VARIABLE = "SAGE_SERVER_API_KEY"
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class ServerSampler(Sampler):
    """Sends one request per sample, at most `in_flight` at once, to the least busy server.

    A request that fails is tried again elsewhere or later, with pauses that double.
    """

    def __init__(
        self,
        servers: Sequence[str],
        parameters: SamplingParameters,
        *,
        model: str | None = None,
        in_flight: int = 256,
        timeout_s: float = 600,
    ) -> None:
        if not servers:
            raise SamplingError(
                "backend 'server' has no server to ask",
                "name one: --set sampling.servers='[\"http://localhost:8000\"]'",
            )
        key = os.environ.get(API_KEY_VARIABLE)
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=min(10.0, timeout_s)),
            limits=httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight),
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )
        self._parameters, self._in_flight = parameters, in_flight
        self._balance = Balance([server.rstrip("/").removesuffix("/v1") for server in servers])
        self._model = model or self._served_model()

    @property
    def provenance(self) -> Mapping[str, str]:
        """The endpoint's kind and the model it says it serves; a server tells no more."""
        return {"engine": "server", "served_model": self._model}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as they arrive; SamplingError names a server that stays away."""
        if self._client.is_closed:
            raise SamplingError("the server sampler was closed")
        waiting = ((request, index) for request in requests for index in request.indices)
        arrived: queue.SimpleQueue[Future[Completion]] = queue.SimpleQueue()
        giving_up = threading.Event()
        with ThreadPoolExecutor(self._in_flight) as pool:

            def send(count: int) -> int:
                batch = list(islice(waiting, count))
                for request, index in batch:
                    future = pool.submit(self._complete, request, index, giving_up)
                    future.add_done_callback(arrived.put)
                return len(batch)

            try:
                pending = send(self._in_flight)
                while pending:
                    completion = arrived.get().result()
                    pending += send(1) - 1
                    yield completion
            finally:
                giving_up.set()
                pool.shutdown(cancel_futures=True)

    def _complete(
        self, request: SampleRequest, index: int, giving_up: threading.Event
    ) -> Completion:
        seed = sample_seed(request.seed, request.problem_id, index)
        body = _request_body(self._parameters, self._model, request.prompt, seed)
        reply = self._post(body, giving_up)
        choice = reply["choices"][0]
        text, stop = choice["text"], self._parameters.stop
        matched = choice.get("stop_reason") or choice.get("matched_stop")
        if stop is not None and matched == stop and not text.endswith(stop):
            text += stop
        reason = "length" if choice["finish_reason"] == "length" else "stop"
        tokens = reply["usage"]["completion_tokens"]
        return Completion(request.problem_id, index, request.seed, text, tokens, reason)

    def _post(self, body: dict[str, Any], giving_up: threading.Event) -> Any:
        pause_s, failure = FIRST_PAUSE_S, ""
        for _ in range(ATTEMPTS):
            with self._balance.chosen() as server:
                try:
                    response = self._client.post(f"{server}/v1/completions", json=body)
                except httpx.TransportError as error:
                    failure = f"{server} didn't answer: {error or type(error).__name__}"
                else:
                    if response.is_success:
                        return response.json()
                    failure = f"{server} answered {response.status_code}: {response.text[:300]}"
                    if response.status_code not in _TRY_AGAIN:
                        raise SamplingError(failure, "check the model's name and its limits")
            self._balance.failed(server)
            if giving_up.wait(pause_s):
                break
            pause_s *= 2
        raise SamplingError(
            f"{failure} (asked {ATTEMPTS} times)",
            "start the server again and type the same command: what was drawn is kept",
        )

    def _served_model(self) -> str:
        served = set()
        for server in self._balance.servers:
            try:
                response = self._client.get(f"{server}/v1/models").raise_for_status()
                served.add(str(response.json()["data"][0]["id"]))
            except (httpx.HTTPError, ValueError, LookupError) as error:
                raise SamplingError(
                    f"{server} doesn't say which model it serves: {error}",
                    "start it, or name the model with --set sampling.server_model=NAME",
                ) from error
        if len(served) > 1:
            raise SamplingError(
                f"the servers serve different models: {', '.join(sorted(served))}",
                "name one with --set sampling.server_model=NAME",
            )
        return served.pop()


def _request_body(p: SamplingParameters, model: str, prompt: str, seed: int) -> dict[str, Any]:
    """The request of one sample; what isn't in OpenAI's API is sent only where it matters."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "n": 1,
        "max_tokens": p.max_tokens,
        "temperature": p.temperature,
        "top_p": p.top_p,
        "seed": seed,
        "add_special_tokens": False,
    }
    if p.top_k > 0:
        body["top_k"] = p.top_k
    if p.min_p > 0:
        body["min_p"] = p.min_p
    if p.stop is not None:
        body |= {"stop": [p.stop], "include_stop_str_in_output": True}
    return body
