"""`sage init`: begin a study of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that isn't there yet, or is empty.")],
    json: Json = False,
) -> None:
    """Make a small study: a preset, problems, a suite, and a README with its commands."""
    from sage_cli.workflows.init import init

    written = init(folder)
    if json:
        emit({"folder": str(folder), "written": [str(file) for file in written]})
        return
    for file in written:
        console.print(f"wrote {file}", soft_wrap=True)
    console.print(
        f"\ncd {folder}\nsage rl -p tiny -p preset.yaml --algo dapo --guide branch", soft_wrap=True
    )
