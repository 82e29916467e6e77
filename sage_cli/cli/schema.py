"""`sage schema`: the JSON schema of a command's `--json`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.errors import ConfigurationError


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="A command, as `runs list`; without it, a list."),
    ] = None,
) -> None:
    """Print the JSON schema of what a command prints with --json, or list these commands."""
    from sage_cli.cli.terminal.schemas import ANSWERS, schema

    name = " ".join(names or ())
    if not name:
        console.print("\n".join(ANSWERS), highlight=False)
    elif name in ANSWERS:
        emit(schema(name))
    else:
        near = get_close_matches(name, ANSWERS, n=1)
        raise ConfigurationError(
            f"no command '{name}' prints JSON",
            f"did you mean `sage schema {near[0]}`?"
            if near
            else "`sage schema` lists all commands",
        )
