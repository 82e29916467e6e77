"""What a launched process says of a failure, once its launcher is gone."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType

from sage_cli.errors import ConfigurationError, Interrupted, StoreError, TrainingError
from sage_cli.settings.shipped import shipped
from sage_cli.store.locks import is_held
from sage_cli.store.run import Run
from sage_cli.training.launch import (
    WATCHDOG_VARIABLE,
    accelerate_configuration,
    command_lock,
    launch_command,
    run_together,
)

FAILING = """
import sys, threading
from pathlib import Path
from sage_cli.store.run import Run
from sage_cli.training import launch
# whoever follows looks too late: the failure comes first
threading.Thread.start = lambda self: None
run = Run(Path(sys.argv[1]))
lives = launch.follow()
with run.recording({}, kind="rl"), launch.ended_with(lives):
    raise RuntimeError("Connection closed by peer")
"""


@pytest.mark.parametrize(
    ("launcher", "code", "status"),
    [("lives", 1, "failed"), ("gone", -signal.SIGKILL, "interrupted")],
)
def test_a_failure_after_the_launchers_death_says_nothing_of_the_training(
    tmp_path, monkeypatch, launcher, code, status
):
    monkeypatch.setenv(WATCHDOG_VARIABLE, str(tmp_path))
    with command_lock(tmp_path) if launcher == "lives" else nullcontext():
        command = [sys.executable, "-c", FAILING, str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == code, ended.stderr
    assert Run(tmp_path).read().status == status


on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="refused on machines without a GPU")
KINDS = {
    "ddp": DistributedType.MULTI_GPU,
    "fsdp2": DistributedType.FSDP,
    "zero3": DistributedType.DEEPSPEED,
}


@pytest.mark.parametrize("name", KINDS)
def test_accelerate_reads_the_shipped_configurations(name):
    read = load_config_from_file(str(shipped("configs/accelerate") / f"{name}.yaml"))
    assert read.distributed_type == KINDS[name]
    assert read.num_processes == -1  # not said: accelerate insists on --num_processes
    assert read.mixed_precision == "no"  # the trainer's arguments decide
    assert read.use_cpu is False
    assert read.fsdp_config.get("fsdp_version") == (2 if name == "fsdp2" else None)
    assert read.deepspeed_config.get("zero_stage") == (3 if name == "zero3" else None)


def test_the_command_names_file_and_processes():
    file = accelerate_configuration("ddp")
    assert file == shipped("configs/accelerate") / "ddp.yaml"
    assert {path.stem for path in file.parent.glob("*.yaml")} == set(KINDS)
    assert launch_command(3, ["a.module", "run"], file) == [
        sys.executable,
        "-m",
        "sage_cli.training.loopback",
        "accelerate.commands.launch",
        "--config_file",
        str(file),
        "--num_processes",
        "3",
        "-m",
        "a.module",
        "run",
    ]


def test_a_file_of_ones_own(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("distributed_type: MULTI_GPU")
    assert accelerate_configuration(str(own)) == own
    with pytest.raises(ConfigurationError, match=r"there is no file .*gone\.yaml"):
        accelerate_configuration(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize(
    ("written", "refusal"),
    [
        *((kind, "starts a single process") for kind in ("MULTI_CPU", "NO", None)),
        pytest.param("zero3", r"zero3 \(DEEPSPEED\) shards a model over GPUs", marks=on_cpu),
        pytest.param("fsdp2", r"fsdp2 \(FSDP\) shards a model over GPUs", marks=on_cpu),
    ],
)
def test_what_accelerate_would_start_otherwise_is_refused(tmp_path, written, refusal):
    """A file of one's own, or a shipped one, which would run as plain DDP on CPUs."""
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"distributed_type": written} if written else {"use_cpu": True}))
    with pytest.raises(ConfigurationError, match=refusal):
        accelerate_configuration(written if written in KINDS else str(own))


FAILING_LAUNCH = """
import sys
from pathlib import Path
from sage_cli.store.run import Run
Run(Path(sys.argv[1])).note(started="now", status="failed", reason="the disk is full")
sys.exit(2)
"""


def test_why_the_run_failed_is_said_at_once_and_the_log_is_named(tmp_path):
    run, log = Run(tmp_path), tmp_path / "processes.log"
    run.note(started="before", status="failed", reason="something else")
    failing = "import sys; print('the reason'); sys.exit(3)"
    with pytest.raises(TrainingError, match=r"exit code 3\)$") as caught:  # before it began again
        run_together([sys.executable, "-c", failing], 2, run, lambda _: None)
    assert str(log) in str(caught.value.next_step)
    assert log.read_text() == "the reason\n"
    with pytest.raises(TrainingError, match=r"exit code 2\): the disk is full$"):
        run_together([sys.executable, "-c", FAILING_LAUNCH, str(tmp_path)], 2, run, lambda _: None)


WAITING = """
import os, signal, sys, time
from pathlib import Path
from sage_cli.store.run import Run
from sage_cli.training.launch import follow
run, heard = Run(Path(sys.argv[1])), []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
follow()
run.metrics.append({"step": 1, "of": 9, "pid": os.getpid()})
deadline = time.monotonic() + 60
while time.monotonic() < deadline and not heard:
    time.sleep(0.01)
if heard and "obeys" in sys.argv:
    run.note(status="interrupted")
    sys.exit(143)
time.sleep(60)
"""


def waiting(run, *words):
    return [sys.executable, "-c", WAITING, str(run.folder), *words]


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT] * 2], ids=["one", "two"])
def test_a_signal_is_passed_on_and_waited_for_and_a_second_ends_all(tmp_path, capfd, numbers):
    run = Run(tmp_path)

    def interrupt(_record):
        for number in numbers:
            os.kill(os.getpid(), number)

    words = ["obeys"] if len(numbers) == 1 else []
    with command_lock(tmp_path), pytest.raises(Interrupted) as caught:
        run_together(waiting(run, *words), 2, run, interrupt, 4)
    assert gone(run.metrics.read()[0]["pid"])
    if words:
        # of four steps one is done
        assert "SIGTERM: saving in 3 steps" in capfd.readouterr().err
        assert (caught.value.exit_code, caught.value.saved) == (143, None)
        assert run.read().status == "interrupted"
        assert not (tmp_path / ".stop").exists()


LAUNCHING = """
import sys
from pathlib import Path
from sage_cli.store.run import Run
from sage_cli.training.launch import run_together
from sage_cli.training.launch import command_lock
run = Run(Path(sys.argv[1]))
# a launcher stands between the command and its processes, and outlives both
between = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True).wait()"
with command_lock(run.folder):
    run_together([sys.executable, "-c", between, *sys.argv[2:]], 2, run, lambda _: None)
"""


def test_processes_die_with_the_command_that_launched_them(tmp_path):
    run = Run(tmp_path)
    command = [sys.executable, "-c", LAUNCHING, str(tmp_path), *waiting(run)]
    with subprocess.Popen(command) as launching:
        until(lambda: bool(run.metrics.read()))
        with pytest.raises(StoreError, match=f"process {launching.pid} "), command_lock(tmp_path):
            pass
        assert is_held(tmp_path)
        launching.kill()
    until(lambda: gone(run.metrics.read()[0]["pid"]))
    with command_lock(tmp_path):
        pass


ORPHAN = """
import os, sys, time
from pathlib import Path
from sage_cli.training.launch import follow
follow()
Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""


def test_a_process_ends_with_a_launcher_that_somebody_else_typed(tmp_path):
    """torchrun, srun and accelerate start each process themselves: they are its parents."""
    said = tmp_path / "pid"
    launcher = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    parent = subprocess.Popen([sys.executable, "-c", launcher, ORPHAN, str(said)])
    until(lambda: said.exists() and said.read_text() != "")
    child = int(said.read_text())
    assert not gone(child)
    parent.kill()
    parent.wait()
    until(lambda: gone(child))


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid):
    """Whether the process has ended; one that nobody has collected counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
