"""`sage init`: begin a study of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json


def command(
    folder: Annotated[
        Path, typer.Argument(help="Folder to create; it must not exist yet, or be empty.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Model to train: a folder, or ORG/MODEL of the Hub.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Problems to train it on: a file, or a name of a data set.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a small study with a preset, problems, a suite, and a README with its commands.

    With `--model` and `--data` it is a study of that model on those problems, of which a tenth is
    held out where they are a file.
    """
    from sage_cli.trials.new_study import create_study

    written = create_study(folder, model, data)
    if json:
        emit({"folder": str(folder), "written": [str(file) for file in written]})
        return
    for file in written:
        console.print(f"wrote {file}", soft_wrap=True)
    first = (
        "sage doctor -p preset.yaml --generate    # then as README.md says"
        if model is not None
        else "sage rl -p tiny -p preset.yaml --algo dapo --guide branch"
    )
    console.print(f"\ncd {folder}\n{first}", soft_wrap=True)
