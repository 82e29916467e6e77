"""Works that are shell lines: what they leave is a file, which says that they are done."""

from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.load import load
from sage_cli.trials.executors.executor import Command, Resources
from sage_cli.trials.task import Task


@dataclass(eq=False, kw_only=True)
class ShellTask(Task):
    """`line` under `sh`, in the folder of its result."""

    line: str
    folder: Path

    def command(self, file, log):
        command = ("sh", "-c", f"cd '{self.folder}'; {self.line}")
        return Command(self.name, command, log, self.resources)


def shell_task(folder, name, line=None, needs=None):
    """A work that is done once `folder/name` is there, which its default line makes."""
    return ShellTask(
        name,
        f"work {name}",
        (),
        load().config,
        (folder / name).exists,
        Resources(),
        needs=needs,
        line=line or f"echo {name} >> order; echo made > {name}",
        folder=folder,
    )
