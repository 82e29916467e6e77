"""Several processes that train together: launched, stopped by signals, ended with their command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from rich.markup import escape

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig, unfit_for
from sage_cli.errors import ConfigurationError, Interrupted, StoreError, TrainingError
from sage_cli.methods.loop import Method
from sage_cli.progress import Progress
from sage_cli.settings.sharding import SHARDED, Sharding, accelerate_file, distributed_type
from sage_cli.settings.tracking import TrackingSection
from sage_cli.settings.yaml_files import read_yaml
from sage_cli.store.files import private
from sage_cli.store.json_files import write_json
from sage_cli.store.locks import LAUNCHER, is_locked, writer
from sage_cli.store.run import FAILED, Run
from sage_cli.training.checkpoints import interrupted, prepare_resume
from sage_cli.training.watch import OnStep, step_callbacks

if TYPE_CHECKING:
    from accelerate import PartialState

STOPPING = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, `number` is the first signal that asked to stop, 0 without one.

    A training stops after a multiple of `period` steps; `done` tells where it is.
    A second signal raises Interrupted at once. Under a launcher (`patient`) it doesn't: there one
    notice arrives several times, from the terminal, the launcher and the cluster; and a process
    that was asked to stop goes on not to hear them, so that it ends in order.
    """

    def __init__(self, *, patient: bool, period: int = 1) -> None:
        self.number, self.patient, self.period = 0, patient, period
        self._left = period
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        # Python delivers signals to the main thread alone, and only there may handlers be set
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        # a patient process keeps the handlers after a signal: its launcher ends it, and a second
        # signal must not cut its checkpoint short
        if not (self.number and self.patient):
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def done(self, step: int, steps: int) -> None:
        """Note that `step` steps are done, of a training of so many."""
        self._left = min(self.period - step % self.period, max(1, steps - step))

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        again, self.number = self.number, self.number or number
        if self.patient:
            return
        if again:
            raise Interrupted(number)
        when = "after this step"
        if self._left > 1:
            when = f"in {self._left} steps, at the end of their generation batch"
        notice = f"\n{signal.Signals(number).name}: saving {when}; a second one ends at once\n"
        with suppress(OSError):  # a terminal that is gone
            os.write(2, notice.encode())  # safe in a handler, as the console isn't


_PATIENCE = timedelta(days=1)
"""How long processes wait for one that trains the base before they train together."""
PROCESSES_VARIABLE = "SAGE_PROCESSES"
"""Tells a launched process how many it was meant to be one of."""


def world_size(meant: int | None = None, *, here: bool = False) -> int:
    """Return the number of processes that train together, with `here` those on this machine.

    `meant` before they are launched.
    """
    if meant is not None and not is_launched():
        return meant
    count = os.environ.get("WORLD_SIZE", "1")
    return int(os.environ.get("LOCAL_WORLD_SIZE", count) if here else count)


def is_launched() -> bool:
    """Return True if a launcher started this process, so nothing is launched again."""
    return "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ


def check_launch(rl: Method, tuning: str) -> None:
    """Check that the launcher that started this process can train `rl` and `tuning`.

    Raises TrainingError in a process that was to be one of several and is fewer of them, and
    ConfigurationError where the launcher's sharding can't train them, or where the method is
    trained in one process.
    """
    meant = int(os.environ.get(PROCESSES_VARIABLE, world_size()))
    if world_size() != meant:
        raise TrainingError(
            f"the launcher started {world_size()} of {meant} processes, which would change the run",
            "use another --accelerate configuration, or --processes N alone",
        )
    if not is_launched():
        return
    if unfit := unfit_for(launchers_sharding(), rl, tuning):
        raise ConfigurationError("\n".join(unfit))
    if rl.trains_alone and world_size() > 1:
        raise ConfigurationError(
            f"rl.algo '{rl.algo}' trains in one process, and a launcher started {world_size()}",
            "type the command without the launcher",
        )


def launchers_sharding() -> Sharding | None:
    """Return the sharding that accelerate states in the environment of its processes.

    None where each process has all weights.
    """
    stages = {"DEEPSPEED": ("ACCELERATE_DEEPSPEED_ZERO_STAGE", 2), "FSDP": ("FSDP_VERSION", 1)}
    for kind, (variable, usual) in stages.items():
        if os.environ.get(f"ACCELERATE_USE_{kind}", "false").lower() == "true":
            return Sharding(kind, int(os.environ.get(variable, usual)))
    return None


def join_processes() -> PartialState:
    """Join those launched with this process, over gloo on CPUs, and return its place there."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)


WATCHDOG_VARIABLE = "SAGE_WATCHDOG"
"""Tells a launched process the folder that its command holds."""
LOOK_S = 0.1
_STOP = ".stop"


@contextmanager
def command_lock(folder: Path) -> Iterator[None]:
    """Hold `folder` as the command whose processes train in it; only one may."""
    with writer(folder, LAUNCHER):
        stop = folder / _STOP
        stop.unlink(missing_ok=True)
        try:
            yield
        finally:
            stop.unlink(missing_ok=True)


def ask_to_stop(folder: Path, number: int) -> None:
    """Pass the signal `number` on to the processes that train in `folder`."""
    (folder / _STOP).write_text(str(number))


def follow() -> Callable[[], bool]:
    """End this launched process with its parent, a command or a launcher, from now on.

    It stops as well when a command of ours passes a signal on. Returns a function that says whether
    the parent lives.
    """
    held, parent = os.environ.get(WATCHDOG_VARIABLE), os.getppid()
    folder = Path(held) if held is not None else None

    def lives() -> bool:
        # an orphan gets another parent; a command of ours may be the parent's parent, and is known
        # by its lock
        return os.getppid() == parent if folder is None else _lives(folder)

    threading.Thread(target=_follow, args=(lives, folder), daemon=True).start()
    return lives


@contextmanager
def ended_with(lives: Callable[[], bool]) -> Iterator[None]:
    """End what fails in here without a word when whom it was launched by is gone.

    What a process meets then is the death of the others, which may have looked a moment earlier;
    it says nothing of the training.
    """
    try:
        yield
    except BaseException:
        # killed, not exited: an exit would run handlers that wait for the dead processes of the
        # group
        if not lives():
            os.kill(os.getpid(), signal.SIGKILL)
        raise


def _follow(lives: Callable[[], bool], folder: Path | None) -> None:
    passed_on = False
    while lives():
        if folder is not None and not passed_on and (number := _stop_signal(folder)):
            passed_on = True
            os.kill(os.getpid(), number)
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _lives(folder: Path) -> bool:
    try:
        return is_locked(folder / LAUNCHER)
    except StoreError:  # a file system that fails for the moment says nothing
        return True


def _stop_signal(folder: Path) -> int:
    """Return the signal that was passed on; 0 while there is none, or it is being written."""
    try:
        return int((folder / _STOP).read_text())
    except (OSError, ValueError):
        return 0


LOOPBACK = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), "lo")
"""Has the processes, which are all on this machine, look for each other on its loopback."""
_POLL_S = 0.1
ALONE = ("NO", "MULTI_CPU")
"""Types of accelerate configurations that start a single process and say nothing."""


def accelerate_configuration(name: str) -> Path:
    """Return the file called `name` (shipped, or a path), if it starts several processes here.

    Raises ConfigurationError otherwise.
    """
    file = accelerate_file(name)
    kind = distributed_type(read_yaml(file))
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
    config: SageConfig, run: Run, init: str | None, progress: Progress, shown: Mapping[str, str]
) -> None:
    """Train `run` in `rl.processes` processes of this machine: this command under a launcher.

    `shown` maps metrics to the names beside the bar.
    """
    stored = run.folder / "config.json"
    rl, root = config.rl, str(config.run.root)
    words = ["sage_cli", "rl", "--config", str(stored), "--runs", root, *typed_again(config)]
    words += ["--init", init] if init else []
    by = accelerate_configuration(rl.accelerate) if rl.accelerate else None
    command = launch_command(rl.processes, words, by)
    with ExitStack() as stack:
        with writer(run.folder):  # nothing is touched that somebody else is training
            stack.enter_context(command_lock(run.folder))
            prepare_resume(run, rl)  # records to be forgotten go before anybody follows them
            write_json(stored, config.model_dump(mode="json"))
        # the first of the processes mirrors the run
        silent = TrackingSection(wandb="off")
        watch = stack.enter_context(step_callbacks(run, silent, "rl", progress, shown))

        @cache  # once, though every record and the end ask for it
        def repeat() -> None:
            repeat_preflight(run.try_manifest().get("preflight") or {}, progress)

        def hear(record: Mapping[str, Any]) -> None:
            repeat()
            watch.on_step(record)

        try:
            run_together(command, rl.processes, run, hear, rl.steps_per_batch)
        finally:
            repeat()  # a run that the preflight stopped has no record


def repeat_preflight(facts: Mapping[str, Any], progress: Progress) -> None:
    """Print what the preflight of launched processes found, which they print to their log."""
    for line in facts.get("said", ()):
        progress.say(escape(line))
    for finding in facts.get("findings", ()):
        warnings.warn(f"{finding['cause']}: {finding['remedy']}", stacklevel=2)


def launch_command(
    processes: int, module: Sequence[str], accelerate_file: Path | None = None
) -> list[str]:
    """Return the command that runs `python -m` `module` in `processes` processes of this machine.

    The launcher's stores listen on the loopback alone.
    """
    python = [sys.executable, "-m", "sage_cli.training.loopback"]
    if accelerate_file is not None:
        launcher = ["accelerate.commands.launch", "--config_file", str(accelerate_file)]
        return [*python, *launcher, "--num_processes", str(processes), "-m", *module]
    here = ["--standalone", "--local_addr", "127.0.0.1", "--nproc_per_node", str(processes)]
    return [*python, "torch.distributed.run", *here, "-m", *module]


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
        **(LOOPBACK if sys.platform == "linux" else {}),
        **os.environ,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        PROCESSES_VARIABLE: str(processes),
        WATCHDOG_VARIABLE: str(run.folder.resolve()),
    }
    log, metrics, started = (
        run.folder / "processes.log",
        run.metrics.path,
        run.read_manifest().get("started"),
    )
    metrics.parent.mkdir(parents=True, exist_ok=True)
    metrics.touch()
    with (
        StopSignals(patient=False, period=period) as signals,
        open(log, "w", opener=private) as output,
        metrics.open(encoding="utf-8") as lines,
    ):
        lines.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is ours to pass on: a launcher would give 30 seconds
        )
        try:
            while process.poll() is None:
                if signals.number:
                    ask_to_stop(run.folder, signals.number)
                for record in _new_records(lines):
                    signals.done(record["step"], record["of"])
                    on_step(record)
                time.sleep(_POLL_S)
        finally:
            process.kill()  # the processes that it started follow their command
            process.wait()
        for record in _new_records(lines):
            on_step(record)
    manifest = run.read_manifest()
    failed = manifest.get("started") != started and manifest["status"] == FAILED
    if signals.number and not failed:
        raise interrupted(signals.number, run)
    if process.returncode:
        why = f": {manifest['reason']}" if failed else ""
        raise TrainingError(
            f"a training process failed (exit code {process.returncode}){why}", f"{log} says why"
        )


def _new_records(lines: TextIO) -> Iterator[dict[str, Any]]:
    """Whole lines written since the last call; a line that is still being written waits."""
    while True:
        begin = lines.tell()
        line = lines.readline()
        if not line.endswith("\n"):
            lines.seek(begin)
            return
        yield json.loads(line)
