"""`sage init`: begin a study of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json

if TYPE_CHECKING:
    from sage_cli.cli.answers import WrittenAnswer


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that isn't there yet, or is empty.")],
    json: Json = False,
) -> None:
    """Make a small study: a preset, problems, a suite, and a README with its commands."""
    from sage_cli.workflows.init import init

    written = init(folder)
    if json:
        answer: WrittenAnswer = {"folder": str(folder), "written": [str(one) for one in written]}
        emit(answer)
        return
    for file in written:
        console.print(f"wrote {file}", soft_wrap=True)
    console.print(
        f"\ncd {folder}\nsage rl -p tiny -p preset.yaml --algo dapo --guide branch", soft_wrap=True
    )
