"""The server backend's throughput beside a bare asynchronous client's, at the same concurrency.

    python benchmarks/server.py                           # a made-up server in a process of its own
    python benchmarks/server.py --address http://localhost:8000 --model NAME

The made-up server answers each request after `--latency` seconds, however many are open, as an
engine does that isn't full. Both clients send the same requests in turns; the ratio is of the
medians. Exits with 1 below 0.95.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.server_sampler import ServerSampler

GOAL = 0.95
ROUNDS = 3
PARAMETERS = SamplingParameters(1.0, 1.0, 0, 0.0, 64, None)


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


def ours(address: str, model: str, prompts: list[str], concurrency: int) -> int:
    """Completions by the backend."""
    requests = [SampleRequest(str(i), text, (0,)) for i, text in enumerate(prompts)]
    sampler = ServerSampler([address], PARAMETERS, meant=model, model=model, in_flight=concurrency)
    with sampler:
        return len(list(sampler.sample(requests)))


def bare(address: str, model: str, prompts: list[str], concurrency: int) -> int:
    """Completions by `httpx.AsyncClient` with a semaphore and nothing else."""

    async def run() -> int:
        free = asyncio.Semaphore(concurrency)
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        async with httpx.AsyncClient(timeout=600, limits=limits) as client:

            async def one(text: str) -> dict[str, Any]:
                body = {"model": model, "prompt": text, "max_tokens": PARAMETERS.max_tokens}
                async with free:
                    response = await client.post(f"{address}/v1/completions", json=body)
                found: dict[str, Any] = response.raise_for_status().json()["choices"][0]
                return found

            return len(await asyncio.gather(*map(one, prompts)))

    return asyncio.run(run())


def rate(client: Callable[..., int], *arguments: Any) -> float:
    """Completions a second."""
    began = time.perf_counter()
    count = client(*arguments)
    return count / (time.perf_counter() - began)


def main() -> None:
    """Print both rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="A server that is there; else one is made up.")
    parser.add_argument("--model", default="model")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.5, help="Of the made-up server, s.")
    asked = parser.parse_args()
    address, server = asked.address, None
    if address is None:
        port: Any = multiprocessing.Queue()
        server = multiprocessing.Process(target=serve, args=(port, asked.latency), daemon=True)
        server.start()
        address = f"http://127.0.0.1:{port.get()}"
    prompts = [f"{number}+{number}=?" for number in range(asked.requests)]
    work = (address, asked.model, prompts, asked.concurrency)
    rate(ours, *work), rate(bare, *work)  # once for connections and caches
    rates = [(rate(ours, *work), rate(bare, *work)) for _ in range(ROUNDS)]
    medians = [statistics.median(side) for side in zip(*rates, strict=True)]
    ratio = medians[0] / medians[1]
    print(
        f"sage {medians[0]:.1f}, bare client {medians[1]:.1f} completions/s with "
        f"{asked.concurrency} open: {ratio:.3f}"
    )
    if server is not None:
        server.kill()
    sys.exit(ratio < GOAL)


if __name__ == "__main__":
    main()
