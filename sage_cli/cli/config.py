"""`sage config show|check`: the resolved settings and where each came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.console import console, emit
from sage_cli.cli.group import new_app
from sage_cli.cli.options import ConfigFile, Json, Presets, Sets, load_config

app = new_app("Show and check configurations.")


@app.command()
def show(
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    origin: Annotated[bool, typer.Option("--origin", help="Where each value came from.")] = False,
    json: Json = False,
) -> None:
    """Print every setting as it resolves."""
    loaded = load_config(preset, config, set_)
    if json:
        values = loaded.config.model_dump(mode="json")
        emit({"config": values, "origins": dict(loaded.origins)} if origin else values)
        return
    table = Table(
        "setting", "value", *(["origin"] if origin else []), box=None, padding=(0, 2, 0, 0)
    )
    for name, value, source in loaded.table():
        style = "" if source == "default" else "bold"
        table.add_row(name, escape(str(value)), *([escape(source)] if origin else []), style=style)
    console.print(table)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A YAML file of settings.")],
    json: Json = False,
) -> None:
    """Check a file of settings and report every problem at once."""
    from sage_cli.store.mirrors import require_mirrors

    require_mirrors(load_config([str(file)], None, None).config.tracking)
    if json:
        emit({"file": str(file), "valid": True})
    else:
        console.print(f"[green]{file} is a valid configuration[/]")
