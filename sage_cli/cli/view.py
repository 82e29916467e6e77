"""`sage view`: a local page on what is stored, live while it grows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sage_cli.cli.options import Json, RunRoot
from sage_cli.cli.terminal.console import console, emit

if TYPE_CHECKING:
    from sage_cli.commands.stored.view import Beginning

Name = Annotated[
    str | None, typer.Argument(help="A run, a sweep or a suite to begin with, by part of its name.")
]


def command(
    name: Name = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Default: 7243, or any free one if it is taken."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's own shows it to others.")
    ] = "127.0.0.1",
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the page as files into this folder, and serve nothing."),
    ] = None,
    limit_mb: Annotated[
        int,
        typer.Option(
            "--limit-mb", min=1, help="With --export: at most so many megabytes of what is stored."
        ),
    ] = 64,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Look at runs, samples, sweeps and suites in a browser; nothing is changed."""
    from sage_cli.commands.stored.view import beginning
    from sage_cli.settings.sections.records import default_root

    root = runs or default_root()
    begin = beginning(root, name)
    if export is not None:
        _export(root, begin, export, limit_mb, json)
        return
    from sage_cli.view.security import LOCAL, Access
    from sage_cli.view.server import application, bound, serve

    listening = bound(host, port)
    access = Access(host, listening.getsockname()[1])
    app = application(root, access)
    address = access.address + begin.address
    if json:
        emit({"address": address, "root": str(root.resolve())})
    if host not in LOCAL:
        console.print(
            f"[yellow]warning[/]: whoever reaches {escape(host)} and has the address reads "
            "everything that is stored, without encryption",
            soft_wrap=True,
        )
    console.print(f"sage view of {escape(str(root.resolve()))}", soft_wrap=True)
    console.print(f"[bold]{escape(address)}[/]", soft_wrap=True, highlight=False)
    console.print("Ctrl-C ends it", style="dim")
    if not no_open:
        import webbrowser

        webbrowser.open(address)
    with suppress(KeyboardInterrupt):  # which is how it ends
        serve(app, listening)
    console.print("ended", style="dim")


def _export(root: Path, begin: Beginning, folder: Path, limit_mb: int, json: bool) -> None:
    from sage_cli.cli.terminal.live import Live
    from sage_cli.commands.stored.view import export

    with Live() as live:
        file = export(root, begin, folder, limit_mb, live)
    if json:
        emit({"file": str(file.resolve()), "bytes": file.stat().st_size})
        return
    console.print(f"page: [bold]{escape(str(file))}[/]", soft_wrap=True)
