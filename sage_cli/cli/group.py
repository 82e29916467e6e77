"""The end of every command: a panel for a user's mistake, a way to resume when interrupted."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from sage_cli.cli.console import (
    console,
    emit_error,
    one_object,
    show_error,
    visible,
    wants_json,
)
from sage_cli.errors import (
    EXIT_INTERRUPTED,
    EXIT_OTHER,
    EXIT_USER,
    ConfigurationError,
    SageError,
    StoreError,
)
from sage_cli.settings.passwords import without_passwords

SURROUNDINGS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""Errors of a file system that no program can help: it is full, or somebody else's."""

TRAINING_LIBRARIES = {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "wandb"}
"""What the extra `train` installs besides the base installation, which measures."""

HELP_OPTIONS = ["-h", "--help"]


def without_types_of_flags(options: list[Any]) -> list[Any]:
    """Take the type from the help of flags, which have no value; return the options."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def refuse_options(ctx: typer.Context) -> None:
    """Refuse options that stand before a command of a group that is a command itself."""
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"{option.opts[0]} stands before '{ctx.invoked_subcommand}', which does not read it"
            )


class SageGroup(TyperGroup):
    """A command group whose errors are the user's to understand; bugs stay tracebacks."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Run a command line; with `--json` stdout is kept for one object."""
        if not wants_json(sys.argv[1:] if args is None else args):
            return super().main(args, *rest, **named)
        with one_object():
            try:
                return super().main(args, *rest, **named)
            except SystemExit as end:
                if isinstance(end.code, int) and end.code:  # what hasn't been said below
                    emit_error("nothing was done: stderr says why", None, end.code)
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                emit_error(why, "this is a bug; its traceback is on stderr", EXIT_OTHER)
                raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, for their help without the type of flags."""
        return without_types_of_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
        except SageError as error:
            show_error(error, error.exit_code)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt as stopped:
            saved, code = getattr(stopped, "saved", None), getattr(stopped, "exit_code", None)
            prefix = f"{saved}; " if saved else ""
            again = "without --fresh" if saved and "--fresh" in sys.argv else "again"
            next_step = f"the same command {again} continues"
            console.print(f"\n[yellow]interrupted[/]: {prefix}{next_step}")
            emit_error(saved or "interrupted", next_step, code or EXIT_INTERRUPTED)
            raise typer.Exit(code or EXIT_INTERRUPTED) from None
        except typer.Abort:
            emit_error("declined: nothing was done", None, EXIT_OTHER)
            raise
        except typer.TyperException as error:
            error.message = visible(without_passwords(error.message)) + _here(error)
            emit_error(error.format_message(), None, error.exit_code)
            raise
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in TRAINING_LIBRARIES:
                raise
            lacking = ConfigurationError(
                f"this needs {library}, which is not installed: the base installation measures, "
                "compares and reports, and loads no models",
                'pip install "sage-rlvr[train]"; in a checkout: pip install -e ".[train]"',
            )
            show_error(lacking, EXIT_USER)
            raise typer.Exit(EXIT_USER) from None
        except OSError as error:
            if error.errno not in SURROUNDINGS:
                raise
            where = f"{error.filename}: " if error.filename else ""
            refused = StoreError(
                f"{where}{error.strerror}",
                "mend that and type the same command again: what was stored until now is kept",
            )
            show_error(refused, EXIT_USER)
            raise typer.Exit(EXIT_USER) from None


def _here(error: typer.TyperException) -> str:
    """Return what an unknown option of TRL or Transformers is called here, or an empty text."""
    from sage_cli.config.mistakes import named_elsewhere

    option = named_elsewhere(getattr(error, "option_name", None) or "")
    return f" (here: {option})" if option else ""


def new_app(
    help_text: str, group: type[SageGroup] = SageGroup, *, completion: bool = False
) -> typer.Typer:
    """Make a Typer application with the settings that all commands share."""
    return typer.Typer(
        cls=group,
        help=help_text,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": HELP_OPTIONS},
    )
