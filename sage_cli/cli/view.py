"""`sage view`: a local page on what is stored, live while it grows."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import Annotated, Literal
from urllib.parse import quote

import typer
from rich.markup import escape

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json, RunRoot
from sage_cli.errors import ConfigurationError

_Kind = Literal["run", "sweep", "suite"]
_LOOK_S = 0.2
"""How often a process in the background looks whether the terminal is its own again."""
_Name = Annotated[
    str | None, typer.Argument(help="Run, sweep or suite to show first, by a part of its name.")
]


def command(
    name: _Name = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of the page (default: 7243, or a free one if that is in use).",
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address without opening a browser.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the page as a file into this folder instead of serving it."),
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Browse runs, samples, sweeps and suites in a browser, without changing anything."""
    from sage_cli.cli.libraries import ask_nobody
    from sage_cli.settings.run import default_root

    ask_nobody()  # it shows what is on this machine
    root = runs or default_root()
    kind, full_name = named(root, name)
    if export is not None:
        _export(root, kind, full_name, export, json)
        return
    from sage_cli.view.page_server import Access, application, bound, serve

    listening = bound(port)
    access = Access(listening.getsockname()[1])
    app = application(root, access)
    begin = "runs" if kind is None else f"{kind}?{kind}={quote(full_name)}"
    address = f"{access.address}#/{begin}"

    def invite() -> None:
        access.invite()
        console.print(
            f"for another browser: [bold]{escape(f'{access.address}#/{begin}')}[/]",
            soft_wrap=True,
            highlight=False,
        )

    if json:
        emit({"address": address, "key": access.key, "root": str(root.resolve())})
    console.print(f"sage view of {escape(str(root.resolve()))}", soft_wrap=True)
    console.print(f"[bold]{escape(address)}[/]", soft_wrap=True, highlight=False)
    console.print("Ctrl-C ends it; Enter prints an address for another browser", style="dim")
    Thread(target=each_enter, args=(invite,), daemon=True).start()
    with nullcontext() if no_open else opened(address), suppress(KeyboardInterrupt):  # its end
        serve(app, listening)
    console.print("ended", style="dim")


def each_enter(do: Callable[[], None], terminal: int = 0) -> None:
    """Call `do` for each line that is typed in the terminal; return where it is none, or has ended.

    A process in the background doesn't read: the line is the shell's, and reading would stop it.
    """
    with suppress(OSError):
        while os.isatty(terminal):
            typed, _, _ = select.select([terminal], [], [], _LOOK_S)
            if os.tcgetpgrp(terminal) != os.getpgrp():
                time.sleep(_LOOK_S)
            elif typed:
                if not os.read(terminal, 4096):  # Ctrl-D
                    return
                do()


@contextmanager
def opened(address: str) -> Iterator[None]:
    """Open a browser at a private file that leads to the address, which `ps` would show to all."""
    import webbrowser
    from html import escape as quoted
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", prefix="sage-view-", suffix=".html") as file:  # of mode 0600
        file.write(f'<meta http-equiv="refresh" content="0; url={quoted(address)}">')
        file.flush()
        webbrowser.open(Path(file.name).as_uri())
        yield


def named(root: Path, name: str | None) -> tuple[_Kind | None, str]:
    """Return the kind and the whole name of a run, sweep or suite; (None, "") without a name.

    Raises ConfigurationError if the folder of runs is not there, StoreError for a name of nothing
    in it, or of several.
    """
    from sage_cli.store.names import full_name
    from sage_cli.store.run import Runs
    from sage_cli.trials.sweep.folder import Sweeps
    from sage_cli.view.trials_view import StoredSuites

    if not root.is_dir():
        raise ConfigurationError(
            f"there is no folder {root.resolve()}",
            "change to the folder that contains `runs`, or give it with --runs FOLDER "
            "or $SAGE_RUNS",
        )
    if name is None:
        return None, ""
    kinds: dict[str, _Kind] = {
        **{suite.name: "suite" for suite in StoredSuites(root).all()},
        **{sweep.name: "sweep" for sweep in Sweeps(root).all()},
        **{run.id: "run" for run in Runs(root).all()},
    }
    whole_name = full_name(name, kinds, "run, sweep or suite", f"in {root}", "`sage view` alone")
    return kinds[whole_name], whole_name


def _export(root: Path, kind: _Kind | None, name: str, folder: Path, json: bool) -> None:
    from sage_cli.cli.live import doing
    from sage_cli.view.page_file import write_export

    with doing("writing the page"):
        file = write_export(root, folder, kind, name)
    if json:
        emit({"file": str(file.resolve()), "bytes": file.stat().st_size})
        return
    console.print(f"page: [bold]{escape(str(file))}[/]", soft_wrap=True)
