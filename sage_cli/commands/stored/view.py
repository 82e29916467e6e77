"""`sage view`: what the page begins with, and what an export of it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from sage_cli.errors import ConfigurationError
from sage_cli.progress import Progress
from sage_cli.store.runs.names import full_name
from sage_cli.store.runs.run import Runs
from sage_cli.trials.search.folder import Sweeps
from sage_cli.view.topics.suites import StoredSuites

Kind = Literal["run", "sweep", "suite"]


@dataclass(frozen=True)
class Beginning:
    """What a page begins with: a run, a sweep or a suite by name, or the table of runs."""

    kind: Kind | None = None
    name: str = ""

    @property
    def address(self) -> str:
        """Return its address within the page."""
        return "#/runs" if self.kind is None else f"#/{self.kind}?{self.kind}={quote(self.name)}"


def beginning(root: Path, name: str | None) -> Beginning:
    """Return what `name` means in the folder of runs.

    Raises ConfigurationError if the folder is not there, StoreError for a name of nothing in it,
    or of several.
    """
    if not root.is_dir():
        raise ConfigurationError(
            f"there is no folder {root.resolve()}",
            "go to the folder with `runs`, or name it by --runs FOLDER or $SAGE_RUNS",
        )
    if name is None:
        return Beginning()
    kinds: dict[str, Kind] = {
        **{one.name: "suite" for one in StoredSuites(root).all()},
        **{one.name: "sweep" for one in Sweeps(root).all()},
        **{one.id: "run" for one in Runs(root).all()},
    }
    found = full_name(name, kinds, "run, sweep or suite", f"in {root}", "`sage view` alone")
    return Beginning(kinds[found], found)


def export(root: Path, begin: Beginning, folder: Path, limit_mb: int, progress: Progress) -> Path:
    """Write the page with what it begins with and all that this refers to; return its file."""
    from sage_cli.view.export.held import contents
    from sage_cli.view.export.page_file import refuse_other_folder, write_export
    from sage_cli.view.export.selection import selection_of

    refuse_other_folder(folder)
    with progress.doing("reading what is stored"):
        held = contents(root, selection_of(root, begin.kind, begin.name), limit_mb * 2**20)
    for line in held["left_out"][:5]:
        progress.say(f"left out: {line}")
    return write_export(held, folder)
