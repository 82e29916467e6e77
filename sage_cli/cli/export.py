"""`sage export`: a run's policy as an ordinary model folder, with a card that the Hub shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.cli.options import Json, RunRoot

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The type of the written weights."""


def command(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the model to.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that is already in the folder.")
    ] = False,
    dtype: Annotated[
        Dtype, typer.Option(help="Type of the written weights; auto keeps the stored type.")
    ] = "auto",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help=(
                "Override a setting of the model: model.revision=REVISION or "
                "model.trust_remote_code=true; repeatable."
            ),
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--push",
            help="Upload the folder to the Hub as ORG/MODEL, too. A new repository is private.",
        ),
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Export a run as a Hugging Face folder, with adapters merged and a model card."""
    from sage_cli.models.export import export, push, require_hub_name
    from sage_cli.settings.run import default_root

    root = runs or default_root()
    if to is not None:
        require_hub_name(to)
    with Live() as live:
        exported = export(run, folder, root, live, force=force, dtype=dtype, sets=set_ or ())
        address = push(folder, to, live) if to is not None else None
    if json:
        emit({"folder": str(folder), "address": address, **vars(exported)})
        return
    how = "adapter merged" if exported.merged else "no adapter to merge"
    console.print(f"exported {exported.source} ({exported.dtype}, {how}): [bold]{folder}[/]")
    if address is not None:
        console.print(f"uploaded: {address}")
