"""The command line: `sage COMMAND`. Commands load their workflow only when they run.

A command ends with a panel for a user's mistake, and with a way to resume when interrupted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sage_cli import __version__
from sage_cli.cli.console import (
    SafeFormatter,
    console,
    emit_error,
    in_flags,
    one_object,
    show_error,
    visible,
    wants_json,
)
from sage_cli.errors import (
    EXIT_INTERRUPTED,
    EXIT_OTHER,
    SURROUNDINGS,
    ConfigurationError,
    Interrupted,
    SageError,
    SurroundingsError,
)
from sage_cli.settings.passwords import without_passwords, word_without_passwords

_SETTINGS = {
    # Idle OpenMP threads that spin make two processes on two cores five times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "WANDB_SILENT": "true",
    "MPLBACKEND": "Agg",
    # Plug-ins of pydantic have no say here; to look for them reads every package's metadata.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


_SPIN = {"GOMP_SPINCOUNT": "30000"}
"""Where nothing else runs, threads that wait some tenths of a millisecond before they sleep halve
a small model's step: waking a sleeper takes longer than its share of the work."""

_LOAD = Path("/proc/loadavg")


def prepare(load: Path = _LOAD) -> None:
    """Set threads, telemetry and progress bars of libraries; variables that are set stay.

    A warning is a line of its words, without the line of code that gave it.
    """
    warnings.formatwarning = lambda message, *_, **__: f"warning: {visible(str(message))}\n"
    if logging.lastResort is not None:  # what prints where nobody has said how
        logging.lastResort.setFormatter(SafeFormatter())
    for name, value in {**_SETTINGS, **(_SPIN if _alone(load) else {})}.items():
        os.environ.setdefault(name, value)


def _alone(load: Path) -> bool:
    """Return True if no other thread of the machine runs; reads `0.52 0.4 0.3 1/123 4567`."""
    try:
        return load.read_text().split()[3].startswith("1/")
    except (OSError, IndexError):  # not Linux
        return False


def ask_nobody() -> None:
    """Restrict the Hub's clients to their cache, so a dry run waits for no network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


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
            error.message = visible(without_passwords(error.message)) + _here(error)
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


def _here(error: typer.TyperException) -> str:
    """Return what an option or a word of other programs is called here, or an empty text."""
    from sage_cli.config.explain import named_elsewhere, typed_as_setting

    option = named_elsewhere(getattr(error, "option_name", None) or "")
    if option:
        return f" (here: {option})"
    _, extra, words = error.message.partition("Got unexpected extra argument")
    words = words.partition(" (")[2].removesuffix(")")  # of `argument(s) (one two)`
    typed = [typed_as_setting(word) for word in words.split()] if extra else []
    meant = " ".join(line for line in typed if line)
    return f" (here: {meant})" if meant else ""


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


class _Entry(NamedTuple):
    """A command as `sage --help` lists it, without an import of its file, which has its name."""

    help: str
    """The first sentence of the command's own help; a test compares both."""

    example: str
    """A command line that the help page ends with."""


PANELS = {
    "Train": {
        "sft": _Entry(
            "Train the initial policy by supervised fine-tuning (SFT), or reuse its finished run.",
            "sage sft --preset smollm2-135m",
        ),
        "rl": _Entry(
            "Train a model with RL, optionally with a guide that reshapes the KL anchor.",
            "sage rl --algo dapo --guide branch --steps 100",
        ),
        "export": _Entry(
            "Export a run as a Hugging Face folder, with adapters merged and a model card.",
            "sage export rl-dapo-branch ./my-policy --dtype bfloat16",
        ),
    },
    "Measure": {
        "eval": _Entry(
            "Tabulate pass@k of runs or models over benchmarks and seeds.",
            "sage eval rl-dapo-branch --benchmark aime,amc23 --k 1,64",
        ),
        "passk": _Entry(
            "Measure pass@k of runs, models or files (default: the latest run).",
            "sage passk rl-dapo-branch --benchmark math500 --n 64 --k 1..64",
        ),
        "compare": _Entry(
            "Compare pass@k of two models, or of two methods over their training seeds.",
            "sage compare rl-dapo-branch rl-dapo --k 1,64,256",
        ),
        "analyze": _Entry(
            "Analyse stored samples and records, for example their patterns, support or diversity.",
            "sage analyze support rl-dapo-branch --base sft-arithmetic",
        ),
        "power": _Entry(
            "Estimate the smallest difference of pass@k that problems, samples and seeds "
            "can detect.",
            "sage power sft-arithmetic --problems 500 --k 1,64",
        ),
        "grade": _Entry(
            "Grade the completions in a file; --mode both shows where sage and Math-Verify "
            "disagree.",
            "sage grade completions.jsonl --mode both",
        ),
    },
    "Search": {
        "sweep": _Entry(
            "Search for settings with Optuna: train and measure the trials of a search space.",
            "sage sweep --space tau,rho --sampler tpe --trials 30",
        ),
        "suite": _Entry(
            "Run a table or a figure of the paper, or your own study, and write its report.",
            "sage suite run table1 --preset tiny --seeds 3",
        ),
    },
    "Look": {
        "runs": _Entry("List, show and remove runs.", "sage runs show rl-dapo-branch"),
        "samples": _Entry(
            "Read completions, whole or token by token, or import those of another program.",
            "sage samples show rl-dapo-branch --grade wrong",
        ),
        "view": _Entry(
            "Browse runs, samples, sweeps and suites in a browser, without changing anything.",
            "sage view",
        ),
    },
    "Set up": {
        "demo": _Entry(
            "Train with DAPO without a KL term and with the branch guide, and compare pass@k.",
            "sage demo",
        ),
        "init": _Entry(
            "Create a small study with a preset, problems, a suite, and a README with its "
            "commands.",
            "sage init my-study",
        ),
        "data": _Entry(
            "List data sets, show their problems, and look for overlaps or memorised problems.",
            "sage data show aime24",
        ),
        "config": _Entry(
            "Show and explain configurations, and list methods and presets.",
            "sage config show --preset smollm2-135m --origin",
        ),
        "doctor": _Entry(
            "Check whether a preset, a model and data can be used on this machine; exit "
            "with 1 if not.",
            "sage doctor --preset qwen2.5-math-7b",
        ),
    },
}
"""The panels of `sage --help` with their commands."""

COMMANDS = {name: entry for entries in PANELS.values() for name, entry in entries.items()}
"""Every command, in the order of `sage --help`."""


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
    command.epilog = f"Example: {COMMANDS[name].example}"
    _take_types_from_flags(command)
    return command


def _without_types_of_flags(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _take_types_from_flags(command: Any) -> None:
    """Leave the type of flags out of help texts: they take no value."""
    # the option of its help is made when it is first asked for
    command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))
    _without_types_of_flags([*command.params, command._help_option])
    for inner in getattr(command, "commands", {}).values():
        _take_types_from_flags(inner)


prepare()
app = new_app(
    "Shaped anchors for guided exploration in RLVR: train, measure, sweep, compare.",
    Commands,
    completion=True,
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
