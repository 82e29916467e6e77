"""The command that trains a run in several processes of this machine.

torchrun starts them, or `accelerate launch` where an accelerate configuration is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from sage_cli.config.specs import RecordSpec
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.methods.method import Method
from sage_cli.progress import Progress
from sage_cli.settings.presets import accelerate_file
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.settings.sharding import SHARDED, distributed_type
from sage_cli.store.atomic import private, write_json
from sage_cli.store.lock import writer
from sage_cli.store.runs.manifest import FAILED
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep, watched
from sage_cli.training.checkpoints.checkpoints import interrupted, prepare_resume
from sage_cli.training.checkpoints.stop_signals import StopSignals
from sage_cli.training.launch import watchdog
from sage_cli.training.launch.processes import PROCESSES_VARIABLE

POLL_S = 0.1
ALONE = ("NO", "MULTI_CPU")
"""Types of accelerate configurations that start a single process and say nothing."""


def accelerate_configuration(name: str) -> Path:
    """The file called `name` (shipped, or a path), if it starts several processes here.

    Raises ConfigurationError otherwise.
    """
    file = accelerate_file(name)
    kind = distributed_type(file)
    instead = "use --accelerate ddp, or --processes N alone: both run on CPUs too"
    if kind in ALONE:
        raise ConfigurationError(
            f"{file} has distributed_type {kind}, with which accelerate starts a single process",
            instead,
        )
    if kind in SHARDED and not _has_gpu():  # accelerate would run plain DDP, and say nothing
        raise ConfigurationError(
            f"--accelerate {name} ({kind}) shards a model over GPUs, and this machine has none",
            instead,
        )
    if kind == "DEEPSPEED" and find_spec("deepspeed") is None:
        raise ConfigurationError(
            f"--accelerate {name} needs DeepSpeed, which isn't installed",
            "pip install deepspeed, or use --accelerate fsdp2",
        )
    return file


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def train_together(
    rl: Method,
    record: RecordSpec,
    run: Run,
    init: str | None,
    progress: Progress,
    shown: Mapping[str, str],
) -> None:
    """Train `run` in `rl.processes` processes of this machine: this command under a launcher.

    `shown` maps metrics to the names beside the bar.
    """
    stored = run.folder / "config.json"
    words = ["sage_cli", "rl", "--config", str(stored), "--runs", str(record.root), *record.typed]
    words += ["--init", init] if init else []
    by = accelerate_configuration(rl.accelerate) if rl.accelerate else None
    command = launch_command(rl.processes, words, by)
    with ExitStack() as held:
        with writer(run.folder):  # nothing is touched that somebody else is training
            held.enter_context(watchdog.command_lock(run.folder))
            prepare_resume(run, rl)  # records to be forgotten go before anybody follows them
            write_json(stored, record.settings)
        # the first of the processes mirrors the run
        silent = TrackingSection(wandb="off")
        watch = held.enter_context(watched(run, silent, "rl", progress, shown))
        run_together(command, rl.processes, run, watch.on_step, rl.steps_per_batch)


def launch_command(
    processes: int, module: Sequence[str], accelerate_file: Path | None = None
) -> list[str]:
    """The command that runs `python -m` `module` in `processes` processes on this machine."""
    if accelerate_file is not None:
        launcher = ["accelerate.commands.launch", "--config_file", str(accelerate_file)]
        return [sys.executable, "-m", *launcher, "--num_processes", str(processes), "-m", *module]
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [sys.executable, "-m", *launcher, "-m", *module]


def run_together(
    command: Sequence[str], processes: int, run: Run, on_step: OnStep, period: int = 1
) -> None:
    """Run the processes of `launch_command` to their end and hear each new record of `run`.

    What they print goes to processes.log. They live no longer than this process, which holds
    `command_lock(run.folder)`. They can stop after a multiple of `period` steps. Raises
    TrainingError if they fail, and Interrupted if a signal asked to stop: it is passed on and
    waited for, a second one ends them at once.
    """
    # one thread each: two processes with two threads on two cores slow each other down sixfold
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        PROCESSES_VARIABLE: str(processes),
        watchdog.VARIABLE: str(run.folder.resolve()),
    }
    log, metrics, started = run.folder / "processes.log", run.metrics.path, _started(run)
    metrics.parent.mkdir(parents=True, exist_ok=True)
    metrics.touch()
    with (
        StopSignals(patient=False, period=period) as signals,
        open(log, "w", opener=private) as output,
        metrics.open(encoding="utf-8") as lines,
    ):
        lines.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output,
            start_new_session=True,  # Ctrl-C is ours to pass on: a launcher would give 30 seconds
        )  # fmt: skip
        try:
            while process.poll() is None:
                if signals.number:
                    watchdog.ask_to_stop(run.folder, signals.number)
                for record in _new_records(lines):
                    signals.done(record["step"], record["of"])
                    on_step(record)
                time.sleep(POLL_S)
        finally:
            process.kill()  # the processes that it started follow their command
            process.wait()
        for record in _new_records(lines):
            on_step(record)
    failed = _started(run) != started and run.manifest["status"] == FAILED
    if signals.number and not failed:
        raise interrupted(signals.number, run)
    if process.returncode:
        why = f": {run.manifest['reason']}" if failed else ""
        raise TrainingError(
            f"a training process failed (exit code {process.returncode}){why}", f"{log} says why"
        )


def _started(run: Run) -> str | None:
    return run.manifest.get("started")


def _new_records(lines: TextIO) -> Iterator[dict[str, Any]]:
    """Whole lines written since the last call; a line that is still being written waits."""
    while True:
        place = lines.tell()
        line = lines.readline()
        if not line.endswith("\n"):
            lines.seek(place)
            return
        yield json.loads(line)
