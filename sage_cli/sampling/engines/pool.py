"""Several engines that fill one sample set: a process each, with GPUs of its own.

An engine is a writer like any other: samples that it had not stored when it died are sampled by the
others, or by the same command later. When the pipe to its owner closes, however the owner ended,
the engine stores its samples and ends.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.build import build_sampler
from sage_cli.sampling.engines.engine import Failed, Filled, Job, Make, Refused, Stored, serve
from sage_cli.sampling.engines.engine_settings import refuse_missing_gpus
from sage_cli.sampling.sampler import SamplerSetup
from sage_cli.store.samples.completion import Completion
from sage_cli.store.samples.sample_set import SampleSet
from sage_cli.store.samples.writer import CHUNK

SHARES = 2
"""Mean number of chunks per engine: a slow one leaves its second chunk to others."""
PATIENCE_S = 30.0
"""Seconds that an engine has to store its samples at the end."""

log = logging.getLogger(__name__)

OnStored = Callable[[list[Completion]], None]


@dataclass(eq=False)
class _Engine:
    process: BaseProcess
    pipe: Connection
    name: str


class Engines:
    """`sampling.data_parallel` processes, each with a sampler made of `setup`, until closed.

    `make` makes a sampler in a process: a module's function, which the process can import.
    """

    def __init__(self, setup: SamplerSetup, make: Make = build_sampler) -> None:
        section = setup.section
        self._engines: list[_Engine] = []
        context = get_context("spawn")
        shares = gpu_shares(section.data_parallel, section.tensor_parallel, visible_gpus())
        threads = max(1, (os.cpu_count() or 1) // len(shares))
        for number, gpus in enumerate(shares):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, setup, make, gpus, threads))
            process.start()
            theirs.close()  # so that the pipe ends with the process
            self._engines.append(_Engine(process, ours, f"engine {number + 1}"))

    def fill(
        self, samples: SampleSet, prompts: Mapping[str, str], n: int, on_stored: OnStored
    ) -> None:
        """Sample completions 0 to n - 1 of each problem, as far as `samples` lacks them.

        `on_stored` is called with new completions, without token ids. Raises SamplingError if no
        engine is left, RefusedPromptsError if only samples of some prompts are missing.
        """
        missing = samples.inventory().count_missing(list(prompts), n)
        chunk = min(CHUNK, max(1, -(-missing // (SHARES * max(1, len(self._engines))))))
        job = Job(samples.root, samples.identity, dict(prompts), n, chunk)
        refused: dict[str, str] = {}
        errors: list[SamplingError] = []
        busy = {engine.pipe: engine for engine in list(self._engines)}
        for engine in list(busy.values()):
            with suppress(OSError):  # an engine that has ended is found below
                engine.pipe.send(job)
        while busy:
            for pipe in wait(list(busy)):
                engine = busy[cast(Connection, pipe)]
                match _next_message(engine):
                    case Stored(rows):
                        on_stored(rows)
                        continue
                    case Refused(reasons):
                        refused |= reasons
                    case Failed(cause, next_step):
                        errors.append(SamplingError(cause, next_step))
                        self._end(engine)
                    case None:
                        errors.append(self._lost(engine))
                del busy[engine.pipe]
        self._settle(samples, prompts, n, refused, errors)

    def _settle(
        self,
        samples: SampleSet,
        prompts: Mapping[str, str],
        n: int,
        refused: Mapping[str, str],
        errors: Sequence[SamplingError],
    ) -> None:
        """Raise the first error if samples are missing; else warn about all of them."""
        answerable = [problem for problem in prompts if problem not in refused]
        if samples.inventory().count_missing(answerable, n):
            raise (
                errors[0]
                if errors
                else SamplingError(
                    "the engines ended before all samples were stored",
                    "run the same command again: stored samples are kept",
                )
            )
        for error in errors:
            log.warning("%s; the other engines sampled its share", error.cause)
        if refused:
            raise RefusedPromptsError(refused)

    def close(self) -> None:
        """End the engines, which store their samples."""
        for engine in list(self._engines):
            engine.pipe.close()
        for engine in list(self._engines):
            self._end(engine)

    def _lost(self, engine: _Engine) -> SamplingError:
        self._end(engine)
        return SamplingError(
            f"{engine.name} of sampling.data_parallel ended by itself (exit code "
            f"{engine.process.exitcode})",
            "its error is above, if it could print one; the same command resumes with the stored "
            "samples",
        )

    def _end(self, engine: _Engine) -> None:
        engine.pipe.close()
        engine.process.join(PATIENCE_S)
        if engine.process.is_alive():
            engine.process.kill()
            engine.process.join()
        if engine in self._engines:
            self._engines.remove(engine)


def _next_message(engine: _Engine) -> Stored | Filled | Refused | Failed | None:
    """Return the next message of an engine; None if it has ended."""
    try:
        message: Stored | Filled | Refused | Failed = engine.pipe.recv()
    except (EOFError, OSError):
        return None
    return message


def gpu_shares(engines: int, each: int, gpus: Sequence[str]) -> list[str | None]:
    """Return CUDA_VISIBLE_DEVICES of each engine; None, which leaves it unchanged, without GPUs.

    Raises SamplingError for too few GPUs.
    """
    if not gpus:
        return [None] * engines
    refuse_missing_gpus(engines, each, len(gpus))
    return [",".join(gpus[number * each : (number + 1) * each]) for number in range(engines)]


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs of this process by their names in CUDA_VISIBLE_DEVICES."""
    import torch

    count, named = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return tuple(map(str, range(count)))
    return tuple(name.strip() for name in named.split(","))[:count]
