"""How every command ends: users' mistakes as a panel, interruptions with a way to go on."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from sage_cli.cli.console import console, show_error
from sage_cli.errors import EXIT_INTERRUPTED, EXIT_USER, SageError


class SageGroup(TyperGroup):
    """A command group whose errors are the user's to understand; bugs stay tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
        except SageError as error:
            show_error(error)
            raise typer.Exit(EXIT_USER) from None
        except KeyboardInterrupt as stopped:
            saved, code = getattr(stopped, "saved", None), getattr(stopped, "exit_code", None)
            said = f"{saved}; " if saved else ""
            again = "without --fresh" if saved and "--fresh" in sys.argv else "again"
            console.print(f"\n[yellow]interrupted[/]: {said}the same command {again} continues")
            raise typer.Exit(code or EXIT_INTERRUPTED) from None


def new_app(help_text: str) -> typer.Typer:
    """A Typer application with the house's manners."""
    return typer.Typer(
        cls=SageGroup,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
