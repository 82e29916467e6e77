"""Peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def peak_mb() -> float:
    """Peak resident memory in MB (Linux).

    Not `ru_maxrss`: a child process begins with its parent's there.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) / 1024
