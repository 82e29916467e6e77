"""A program's wall time, processor time and peak memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Spent:
    """What a program needed; processor time counts its children, memory doesn't."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def spent(command: list[str]) -> Spent:
    """Run a program to its end in this environment (Linux); what it says on stderr is let through.

    Raises CalledProcessError when it fails.
    """
    start_s, peak, status = time.perf_counter(), 0.0, None
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdout=output) as process:
            while status is None:
                peak = max(peak, peak_mb(process.pid))
                time.sleep(LOOK_EVERY_S)
                pid, code, usage = os.wait4(process.pid, os.WNOHANG)
                status = os.waitstatus_to_exitcode(code) if pid else None
            wall_s, process.returncode = time.perf_counter() - start_s, status
        output.seek(0)
        said = output.read()
    if status:
        raise subprocess.CalledProcessError(status, command, said)
    return Spent(wall_s, usage.ru_utime + usage.ru_stime, peak, said)


def peak_mb(pid: int | str = "self") -> float:
    """Peak resident memory of a process in MB so far (Linux); 0 when it has ended.

    Not `ru_maxrss`: a child process begins with its parent's there.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    lines = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0]) / 1024 if lines else 0.0
