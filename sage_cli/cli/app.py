"""The command line: `sage COMMAND`. Commands load their workflow only when they run.

A command ends with a panel for a user's mistake, and with a way to resume when interrupted.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sage_cli import __version__
from sage_cli.cli.console import (
    console,
    emit_error,
    in_flags,
    one_object,
    show_error,
    visible,
    wants_json,
)
from sage_cli.cli.libraries import prepare
from sage_cli.cli.listing import COMMANDS, PANELS
from sage_cli.errors import (
    EXIT_INTERRUPTED,
    EXIT_OTHER,
    SURROUNDINGS,
    ConfigurationError,
    Interrupted,
    SageError,
    SurroundingsError,
    did_you_mean,
)
from sage_cli.settings.passwords import without_passwords, word_without_passwords

TRAINING_LIBRARIES = {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "wandb"}
"""What the extra `train` installs besides the base installation, which measures."""

HELP_OPTIONS = ["-h", "--help"]


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

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
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
            if ctx.parent is None:  # a group inside another lets it pass
                error.message = visible(without_passwords(_with_value(error)))
                error.message = _with_hint(error, _here(error))
                emit_error(error.format_message(), None, error.exit_code)
            raise
        except (SageError, ModuleNotFoundError, OSError, MemoryError) as error:
            if (mistake := _mistake(error)) is None:
                raise
            mistake.next_step = in_flags(mistake.next_step, ctx.invoked_subcommand)
            show_error(mistake, mistake.exit_code)
            raise typer.Exit(mistake.exit_code) from None


def _mistake(error: SageError | ModuleNotFoundError | OSError | MemoryError) -> SageError | None:
    """Return what a user can do about an error; None for a bug.

    By the number of the system's error, not by where it was raised: any file may lie on a disk that
    fails. pyarrow's lack of memory is a MemoryError, too.
    """
    if isinstance(error, SageError):
        return error
    if isinstance(error, ModuleNotFoundError):
        library = (error.name or "").partition(".")[0]
        return (
            None
            if library not in TRAINING_LIBRARIES
            else ConfigurationError(
                f"this needs {library}, which is not installed. The base installation "
                "measures, compares and reports, but loads no models",
                'in the checkout of sage: pip install -e ".[train]"',
            )
        )
    by_system = isinstance(error, MemoryError) or error.errno in SURROUNDINGS
    return SurroundingsError(error) if by_system else None


def _here(error: Any) -> str:
    """Return what an option or a word of other programs is called here, or an empty text.

    Options that are offered for a wrong one are left out of `error` unless they are near it. A
    missing argument is answered with the example of the command's help page.
    """
    from sage_cli.config.explain import named_elsewhere, typed_as_setting

    command = getattr(getattr(error, "ctx", None), "command", None)
    if hasattr(error, "param_type"):  # only an error on a missing argument has it
        example = _EXAMPLE.search(getattr(command, "epilog", None) or "")
        return f" (for example: {example[1]})" if example else ""
    if option := getattr(error, "option_name", None):
        params = getattr(command, "params", ())
        here = named_elsewhere(option, {name for param in params for name in param.opts})
        if here and option.startswith("--model") and any(p.name == "names" for p in params):
            here = f"sage {getattr(command, 'name', '')} MODEL, without an option"
        close = [name for name in getattr(error, "possibilities", None) or () if not here]
        error.possibilities = [name for name in close if did_you_mean(option, [name])]
        return f" (here: {here})" if here else ""
    if unknown := _NO_COMMAND.match(error.message):
        return _meant_command(str(getattr(command, "name", "")), unknown[1])
    _, extra, words = error.message.partition("Got unexpected extra argument")
    words = words.partition(" (")[2].removesuffix(")")  # of `argument(s) (one two)`
    typed = [typed_as_setting(word) for word in words.split()] if extra else []
    meant = " ".join(line for line in typed if line)
    return f" (here: {meant})" if meant else ""


_NO_COMMAND = re.compile(r"No such command '([^']*)'\.")
"""What is said of a word that is not a command, perhaps before the nearest names."""
_EXAMPLE = re.compile(r"Example: (.+)$")
"""The end of a help page."""


def _with_hint(error: typer.TyperException, hint: str) -> str:
    """Return the message of `error` with what is typed here for it.

    The hint takes the place of names that merely look alike, such as `grade` for `generate`.
    """
    unknown = _NO_COMMAND.match(error.message)
    before = unknown[0] if unknown and hint else error.message
    return f"{before}{hint}" if before else hint.strip()


def _meant_command(group: str, word: str) -> str:
    """Return what to type for a word that is not a command of a group, or an empty text."""
    from sage_cli.settings.elsewhere import COMMANDS as ELSEWHERE
    from sage_cli.trials.suites.declaration import suite_names

    if group == "suite" and (word in suite_names() or word.endswith((".yaml", ".yml"))):
        return f" (here: sage suite run {word}, or plan or report in the place of run)"
    meant = ELSEWHERE.get(f"{group} {word}" if group in COMMANDS else word)
    return f" (here: {meant})" if meant else ""


_NUMBERS = {"float_parsing": "a number", "int_parsing": "a whole number"}
_NUMBERS |= {"int_from_float": "a whole number"}
"""Kinds of complaints about the value of an option, and what it should be."""


def _with_value(error: typer.TyperException) -> str:
    """Return the message of `error`, with the value that was typed where it lacks it."""
    complaints = getattr(error.__cause__, "errors", None)
    if complaints is None:
        return error.message
    complaint = complaints()[0]
    value, kind = complaint.get("input"), complaint.get("type")
    if kind in _NUMBERS:
        return f"'{value}' is not {_NUMBERS[kind]}"
    text = error.message[:1].lower() + error.message[1:]
    return error.message if kind == "value_error" else f"'{value}': {text}"


def new_app(
    help_text: str,
    group: type[SageGroup] = SageGroup,
    *,
    completion: bool = False,
    epilog: str | None = None,
) -> typer.Typer:
    """Make a Typer application with the settings that all commands share."""
    return typer.Typer(
        cls=group,
        help=help_text,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": HELP_OPTIONS},
    )


class Commands(SageGroup):
    """All commands by name: a list has their entries, and only what is run is imported."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        entries = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=panel)
            for panel, entries in PANELS.items()
            for name, entry in entries.items()
        }
        self.commands = {**entries, **self.commands}

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, for their help without the type of flags."""
        return _without_types_of_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Load the command that is run, or of which an option or value is completed."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command_named(name) if name in COMMANDS else command, rest


@cache
def command_named(name: str) -> Any:
    """Load a command, or a group of commands if its module has an application."""
    module = import_module(f"sage_cli.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        app = new_app(name)
        app.command(name)(module.command)
    command: Any = get_command(app)
    command.name = name
    command.epilog = COMMANDS[name].epilog
    _tidy_help(command)
    return command


def _without_types_of_flags(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _tidy_help(command: Any) -> None:
    """Leave the type of flags out of help texts, where they take no value, and fill paragraphs."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    # the option of its help is made when it is first asked for
    command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))
    _without_types_of_flags([*command.params, command._help_option])
    for inner in getattr(command, "commands", {}).values():
        _tidy_help(inner)


prepare()
app = new_app(
    "Shaped anchors for guided exploration in RLVR: train, measure, sweep, compare.",
    Commands,
    completion=True,
    epilog=(
        "`sage config explain SETTING` explains a setting, and docs/glossary.md the words that "
        "help texts and tables use, such as anchor, guide, q and arm."
    ),
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"sage {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `sage` before a command."""


def main() -> None:
    """The `sage` script; SIGTERM ends it in order, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _terminate)
    # scripts start background jobs with SIGINT ignored, and `kill -INT` is to save there, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = sys.argv[1:]
    sys.argv[1:] = map(word_without_passwords, words)  # manifests, W&B and reports record it
    try:
        app(words)
    finally:
        if wants_json(sys.argv[1:]):  # nor may what libraries do at the end print there
            os.dup2(2, 1)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
