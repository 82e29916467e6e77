"""vLLM's engines: their arguments, checked without vLLM, and several of them in processes."""

from __future__ import annotations

import ast
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, cast

from sage_cli.errors import RefusedPromptsError, SageError, SamplingError
from sage_cli.models.folders import ADAPTER_FILE, embedding_rows, read_json
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import Sampler, SamplerSetup, build_sampler
from sage_cli.store.sample_parts import Completion
from sage_cli.store.sample_set import CHUNK, SampleIdentity, SampleSet

_NOT_SERVED = ("modules_to_save", "target_parameters", "trainable_token_indices", "use_dora")
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks from 8 up with kernels in vLLM 0.31 (`MaxLoRARanks`)."""


def lora_rank(adapter: Path) -> int:
    """Return vLLM's smallest rank that fits an adapter.

    Raises SamplingError above all of them, and for an adapter of more than thin matrices beside
    linear layers.
    """
    settings = read_json(adapter / ADAPTER_FILE)
    rank, special = settings.get("r", 8), [name for name in _NOT_SERVED if settings.get(name)]
    if embedding_rows(adapter) is not None:
        special.append("embeddings of its own")
    fitting = [supported for supported in LORA_RANKS if rank <= supported]
    if fitting and not special:
        return fitting[0]
    raise SamplingError(
        f"the adapter has {special[0] if special else f'rank {rank}'}, and vLLM takes adapters on "
        f"linear layers of rank {LORA_RANKS[-1]} at most",
        "merge it with `sage export RUN DIR` and measure DIR",
    )


def known_settings(arguments_file: Path) -> frozenset[str]:
    """Return the engine's arguments: the fields of `EngineArgs` in vLLM's source.

    The source is parsed: an import would take ten seconds. Empty if the file has no such class.
    """
    try:
        tree = ast.parse(arguments_file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return frozenset()
    fields = (
        line.target.id
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    )
    return frozenset(fields)


def refuse_unknown(settings: Mapping[str, Any], arguments: Collection[str]) -> None:
    """Raise SamplingError for a key of `sampling.vllm` that is not `arguments`.

    If none are known, vLLM itself checks them.
    """
    for name in settings if arguments else ():
        if name not in arguments:
            close = get_close_matches(name, arguments, n=1)
            raise SamplingError(
                f"sampling.vllm.{name} is no argument of this vLLM's engine"
                + (f" (did you mean {close[0]}?)" if close else ""),
                "`vllm serve --help` lists them, with dashes",
            )


def refuse_division(parallel: int, model: Mapping[str, Any]) -> None:
    """Raise SamplingError if `parallel` does not divide the attention heads in a config.json."""
    heads = model.get("num_attention_heads")
    if isinstance(heads, int) and heads % parallel:
        fitting = [str(n) for n in range(1, heads + 1) if heads % n == 0]
        raise SamplingError(
            f"sampling.vllm.tensor_parallel_size {parallel} doesn't divide the model's {heads} "
            "attention heads",
            f"use one of {', '.join(fitting)}; sampling.data_parallel takes any number of engines",
        )


def refuse_missing_gpus(engines: int, each: int, gpus: int) -> None:
    """Raise SamplingError if more GPUs are requested than there are."""
    if engines * each > gpus:
        settings = f"sampling.vllm.tensor_parallel_size {each}"
        if engines > 1:
            settings = f"sampling.data_parallel {engines} x {settings}"
        raise SamplingError(
            f"{settings} asks for {engines * each} GPUs, and this machine shows {gpus}",
            "ask for fewer; CUDA_VISIBLE_DEVICES says which are shown",
        )


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
class Done:
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


def _done(job: Job, sampler: Sampler, pipe: Connection) -> Done | Refused:
    def tell(rows: list[Completion]) -> None:
        pipe.send(Stored([replace(row, token_ids=None) for row in rows]))

    try:
        fill(SampleSet(job.root, job.identity), job.prompts, job.n, sampler, tell, chunk=job.chunk)
    except RefusedPromptsError as error:
        return Refused(error.reasons)
    return Done()


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


def _next_message(engine: _Engine) -> Stored | Done | Refused | Failed | None:
    """Return the next message of an engine; None if it has ended."""
    try:
        message: Stored | Done | Refused | Failed = engine.pipe.recv()
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

    count, listed = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(map(str, range(count)))
    return tuple(name.strip() for name in listed.split(","))[:count]
