"""The page of one suite, sweep or token report, which its command writes beside its other files."""

from __future__ import annotations

from pathlib import Path

from sage_cli.progress import Progress
from sage_cli.store.atomic import write_text
from sage_cli.view.export.held import Selection, contents
from sage_cli.view.export.page_file import page_of
from sage_cli.view.export.selection import selection_of

LIMIT_MB = 2
"""Megabytes of stored results in such a page; its scripts are another."""


def write_own_page(root: Path, kind: str, name: str, file: Path, progress: Progress) -> None:
    """Write the page that begins with a suite, a sweep or a run's token report."""
    with progress.doing("writing the page"):
        write_page(root, selection_of(root, kind, name), file)


def write_page(root: Path, selection: Selection, file: Path, limit_mb: int = LIMIT_MB) -> None:
    """Write a selection of what is stored below `root` as one file."""
    write_text(file, page_of(contents(root, selection, limit_mb * 2**20)))
