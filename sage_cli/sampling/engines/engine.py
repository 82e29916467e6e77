"""One engine of several: a process that samples its owner's jobs and ends with it."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from sage_cli.errors import RefusedPromptsError, SageError
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import Sampler, SamplerSetup
from sage_cli.store.samples.completion import Completion
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet

Make = Callable[[SamplerSetup], Sampler]

GRACE_S = 20.0
"""Seconds that an engine without its owner has to store its samples."""


@dataclass(frozen=True)
class Job:
    """A sample set to fill together with other engines, in claims of `chunk` samples."""

    root: Path
    identity: SampleIdentity
    prompts: Mapping[str, str]
    n: int
    chunk: int


@dataclass(frozen=True)
class Stored:
    """Completions that are on disk, without their token ids."""

    rows: list[Completion]


@dataclass(frozen=True)
class Filled:
    """The job is done: all samples are stored."""


@dataclass(frozen=True)
class Refused:
    """The job is done except for samples of prompts that cannot be answered."""

    reasons: Mapping[str, str]


@dataclass(frozen=True)
class Failed:
    """The engine failed."""

    cause: str
    next_step: str | None


def serve(
    pipe: Connection, setup: SamplerSetup, make: Make, gpus: str | None, threads: int
) -> None:
    """Do the jobs from `pipe`, on these GPUs, until it closes."""
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    else:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner gets it too and closes the pipe
    signal.signal(signal.SIGTERM, _leave)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, jobs), daemon=True).start()
    sampler: Sampler | None = None
    try:
        while True:
            job = jobs.get()
            try:
                sampler = sampler or make(setup)
                pipe.send(_done(job, sampler, pipe))
            except SageError as error:
                pipe.send(Failed(error.cause, error.next_step))
    finally:
        if sampler is not None:
            sampler.close()


def _done(job: Job, sampler: Sampler, pipe: Connection) -> Filled | Refused:
    def tell(rows: list[Completion]) -> None:
        pipe.send(Stored([replace(row, token_ids=None) for row in rows]))

    try:
        fill(SampleSet(job.root, job.identity), job.prompts, job.n, sampler, tell, chunk=job.chunk)
    except RefusedPromptsError as error:
        return Refused(error.reasons)
    return Filled()


def _listen(pipe: Connection, jobs: queue.SimpleQueue[Job]) -> None:
    """Pass on jobs; when the owner is gone, end this process, if necessary by force."""
    while True:
        try:
            jobs.put(pipe.recv())
        except (EOFError, OSError):
            break
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_S)
    os._exit(1)


def _leave(number: int, _: FrameType | None) -> None:
    """End in order, so that samples are stored."""
    sys.exit(128 + number)
