"""Works that are shell lines: what they leave is a file, which says that they are done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.load import load
from sage_cli.executors.executor import Resources, Task
from sage_cli.executors.work import Work


@dataclass(eq=False, kw_only=True)
class ShellWork(Work):
    """`line` under `sh`, in the folder of its result."""

    line: str
    folder: Path

    def task(self, file: Path, log: Path) -> Task:
        command = ("sh", "-c", f"cd '{self.folder}'; {self.line}")
        return Task(self.name, command, log, self.resources)


def shell_work(folder: Path, name: str, line: str | None = None, needs: Work | None = None) -> Work:
    """A work that is done once `folder/name` is there, which its default line makes."""
    return ShellWork(
        name, f"work {name}", (), load().config, (folder / name).exists, Resources(),
        needs=needs, line=line or f"echo {name} >> order; echo made > {name}", folder=folder,
    )  # fmt: skip
