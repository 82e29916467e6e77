"""The server backend's throughput beside that of two bare clients, at the same concurrency.

    python benchmarks/server.py                           # a made-up server in a process of its own
    python benchmarks/server.py --vllm                    # vLLM's, with a small model
    python benchmarks/server.py --address http://localhost:8000 --model NAME

The bare ones are what one writes in a few lines: `httpx.AsyncClient` behind a semaphore, and a pool
of threads that share an `httpx.Client`. All three send the same requests, to the letter, in an
order that changes from round to round. The made-up server answers each after `--latency` seconds,
however many are open, as an engine does that isn't full. Exits with 1 where the median of the
rounds' ratios is below 0.95 for one of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters, sample_seed
from sage_cli.sampling.server import ServerSampler
from sage_cli.sampling.server_api import IDLE_S, Completions, sampling_fields
from sage_cli.settings.sampling import SamplingSection

GOAL = 0.95
PARAMETERS = SamplingParameters(1.0, 1.0, 0, 0.0, 64, None)
UP_WITHIN_S = 600


@dataclass(frozen=True)
class Work:
    """A server, what it calls its model, and what is asked of it."""

    address: str
    model: str
    prompts: Sequence[str]
    concurrency: int

    def bodies(self) -> list[dict[str, Any]]:
        """The requests as the backend sends them."""
        fixed = {"model": self.model, **sampling_fields(PARAMETERS)}
        return [
            {**fixed, **Completions().fields(text), "seed": sample_seed(0, str(number), 0)}
            for number, text in enumerate(self.prompts)
        ]


Client = Callable[[Work], int]
"""Gets all completions, and says how many."""


async def answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency_s: float
) -> None:
    """Answer the requests of one connection."""
    said = {
        "data": [{"id": "model"}],
        "choices": [{"text": "42", "finish_reason": "stop"}],
        "usage": {"completion_tokens": 64},
    }
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    try:
        while True:
            asked = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, _, after = asked.partition(b"content-length:")
            if after:
                await reader.readexactly(int(after.split(b"\r\n")[0]))
                await asyncio.sleep(latency_s)
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(port: Any, latency_s: float) -> None:
    """Serve until killed; the port comes through the queue `port`."""

    async def run() -> None:
        server = await asyncio.start_server(
            lambda reader, writer: answer(reader, writer, latency_s), "127.0.0.1", 0, backlog=1024
        )
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def made_up(latency_s: float) -> Iterator[tuple[str, str]]:
    """Address and model of a server that knows nothing."""
    port: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port, latency_s), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{port.get()}", "model"
    finally:
        server.kill()


@contextmanager
def vllm(hidden: int) -> Iterator[tuple[str, str]]:
    """Address and model of vLLM's own server, on random weights of two layers."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from random_model import save_scratch

    from sage_cli.settings.model import ScratchModel

    section = ScratchModel(
        kind="scratch", hidden=hidden, layers=2, heads=hidden // 32, feed_forward=2 * hidden
    )
    port = 8761
    with tempfile.TemporaryDirectory() as folder:
        save_scratch(section, ["<SOLUTION>", "</SOLUTION>"], [], Path(folder))
        module = "vllm.entrypoints.openai.api_server"  # what `vllm serve` runs
        command = [sys.executable, "-m", module, "--model", folder, "--port", str(port)]
        command += ["--dtype", "float32", "--max-model-len", "128", "--enforce-eager"]
        quiet = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_KVCACHE_SPACE": "1"}
        with subprocess.Popen(command, env=os.environ | quiet) as server:
            try:
                wait_for(f"http://127.0.0.1:{port}/health", server)
                yield f"http://127.0.0.1:{port}", folder
            finally:
                server.terminate()


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    """Return when the server answers."""
    until = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < until and server.poll() is None:
        try:
            httpx.get(address).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(1)
    raise SystemExit(f"the server at {address} hasn't come up")


def ours(work: Work) -> int:
    """Completions by the backend."""
    requests = [SampleRequest(str(i), text, (0,)) for i, text in enumerate(work.prompts)]
    section = SamplingSection(
        servers=(work.address,), server_model=work.model, batch_rows=work.concurrency
    )
    with ServerSampler(SamplerSetup(work.model, PARAMETERS, section)) as sampler:
        return len(list(sampler.sample(requests)))


def limits(work: Work) -> httpx.Limits:
    """As many connections as there may be open requests, and no idle one that the server closes."""
    return httpx.Limits(
        max_connections=work.concurrency,
        max_keepalive_connections=work.concurrency,
        keepalive_expiry=IDLE_S,
    )


def choice(response: httpx.Response) -> dict[str, Any]:
    """The completion in a server's answer."""
    found: dict[str, Any] = response.raise_for_status().json()["choices"][0]
    return found


def asynchronous(work: Work) -> int:
    """Completions by `httpx.AsyncClient` with a semaphore and nothing else."""

    async def run() -> int:
        free = asyncio.Semaphore(work.concurrency)
        async with httpx.AsyncClient(timeout=600, limits=limits(work)) as client:

            async def one(body: dict[str, Any]) -> dict[str, Any]:
                async with free:
                    return choice(await client.post(f"{work.address}/v1/completions", json=body))

            return len(await asyncio.gather(*map(one, work.bodies())))

    return asyncio.run(run())


def threaded(work: Work) -> int:
    """Completions by a pool of threads that share an `httpx.Client`, and nothing else."""
    with (
        httpx.Client(timeout=600, limits=limits(work)) as client,
        ThreadPoolExecutor(work.concurrency) as pool,
    ):

        def one(body: dict[str, Any]) -> dict[str, Any]:
            return choice(client.post(f"{work.address}/v1/completions", json=body))

        return len(list(pool.map(one, work.bodies())))


def timed(client: Client, work: Work) -> tuple[float, float]:
    """Completions a second, and the client's own processor seconds for each."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    count = client(work)
    return count / (time.perf_counter() - began_s), (time.process_time() - cpu_s) / count


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The two of `values`, closest together, between which the median lies with 95 %.

    Each value is below the median with chance 1/2, whatever its law, so that a side may leave out
    as many as are below it with a chance of 2.5 %. Of fewer than six values, none.
    """
    ordered, count, outside, rank = sorted(values), len(values), 0.0, 0
    while (outside := outside + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    at = max(0, rank - 1)
    return ordered[at], ordered[-1 - at]


def measure(work: Work, rounds: int) -> float:
    """Print rates and ratios, and return the lower one."""
    clients = (ours, asynchronous, threaded)
    for client in clients:  # once for connections and caches
        client(work)
    found: dict[Client, list[tuple[float, float]]] = {client: [] for client in clients}
    orders = itertools.cycle(itertools.permutations(clients))
    for order in itertools.islice(orders, rounds):
        for client in order:
            found[client].append(timed(client, work))
    print(
        f"{len(work.prompts)} requests, {work.concurrency} open, {rounds} rounds; at the end "
        f"{os.getloadavg()[0]:.1f} processes wanted one of {os.cpu_count()} cores\n"
    )
    print("| client | completions/s | ms of processor time each | sage / it | 95 % of the median |")
    print("|---|---|---|---|---|")
    lowest = math.inf
    for client, name in zip(clients, ("sage", "httpx.AsyncClient", "threads"), strict=True):
        rate, cost_s = map(statistics.median, zip(*found[client], strict=True))
        compared = "| |"
        if client is not ours:
            ratios = [a / b for (a, _), (b, _) in zip(found[ours], found[client], strict=True)]
            low, high = median_interval(ratios)
            lowest = min(lowest, statistics.median(ratios))
            compared = f"| {statistics.median(ratios):.3f} | {low:.3f} to {high:.3f}"
        print(f"| {name} | {rate:.1f} | {1000 * cost_s:.2f} {compared} |")
    return lowest


def main() -> None:
    """Measure the server that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="A server that is there.")
    parser.add_argument("--model", default="model", help="What it calls its model.")
    parser.add_argument("--vllm", action="store_true", help="Start vLLM's server.")
    parser.add_argument("--hidden", type=int, default=128, help="Of the model that vLLM serves.")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--latency", type=float, default=0.5, help="Of the made-up server, s.")
    asked = parser.parse_args()
    prompts = [f"{number}+{number}=?" for number in range(asked.requests)]
    if asked.address is not None:
        work = Work(asked.address, asked.model, prompts, asked.concurrency)
        ratio = measure(work, asked.rounds)
    else:
        with vllm(asked.hidden) if asked.vllm else made_up(asked.latency) as (address, model):
            ratio = measure(Work(address, model, prompts, asked.concurrency), asked.rounds)
    sys.exit(ratio < GOAL)


if __name__ == "__main__":
    main()
