"""Several processes: whether we are one of them, and the command that starts them.

`accelerate launch --cpu` starts a single process without a word, so torchrun it is, or an
accelerate configuration file where one is given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import PartialState


def world_size() -> int:
    """How many processes train together; launchers (torchrun, Slurm, accelerate) say so."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_launched() -> bool:
    """Whether a launcher started this process, so that nothing is to be launched again."""
    return "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ


def join_processes() -> PartialState:
    """This process's place among those launched with it; on CPUs they talk over gloo."""
    return PartialState(cpu=not torch.cuda.is_available())


def launch_command(
    processes: int, module: Sequence[str], accelerate_file: Path | None = None
) -> list[str]:
    """The command that runs `python -m` `module` in `processes` processes on this machine."""
    if accelerate_file is not None:
        launcher = ["accelerate.commands.launch", "--config_file", str(accelerate_file)]
        return [sys.executable, "-m", *launcher, "--num_processes", str(processes), "-m", *module]
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [sys.executable, "-m", *launcher, "-m", *module]


def launch_environment() -> dict[str, str]:
    """The environment for the processes: one thread each, or they slow each other down sixfold."""
    return {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
