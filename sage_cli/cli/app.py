"""The command line: `sage COMMAND`. Commands load their workflow only when they run."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from sage_cli import __version__
from sage_cli.cli.console import SafeFormatter, visible, wants_json
from sage_cli.cli.group import HELP_OPTIONS, SageGroup, new_app, without_types_of_flags
from sage_cli.errors import Interrupted
from sage_cli.settings.passwords import word_without_passwords

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


PANELS = {
    "Train": {
        "sft": "sft",
        "rl": "rl",
        "export": "export",
    },
    "Measure": {
        "eval": "evaluate",
        "passk": "passk",
        "compare": "compare",
        "analyze": "analyze",
        "power": "power",
        "grade": "grade",
    },
    "Search": {
        "sweep": "sweep",
        "suite": "suite",
    },
    "Look": {
        "runs": "runs",
        "samples": "samples",
        "view": "view",
    },
    "Set up": {
        "demo": "demo",
        "init": "init",
        "data": "data",
        "config": "config",
        "doctor": "doctor",
    },
}
"""The panels of `sage --help` with their commands, each with its module below this folder."""

COMMANDS = {name: module for modules in PANELS.values() for name, module in modules.items()}
"""Every command and its module below this folder, in the order of `sage --help`."""


class Commands(SageGroup):
    """All commands by name, each imported when it is run or listed: most runs need one of them."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        # empty ones, for the list and for what a typo may have meant
        self.commands = {**{name: TyperCommand(name) for name in COMMANDS}, **self.commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options, or None if no command has that name."""
        return (
            command_named(cmd_name) if cmd_name in COMMANDS else super().get_command(ctx, cmd_name)
        )


@cache
def command_named(name: str) -> Any:
    """Load a command, or a group of commands if its module has an application."""
    module = import_module(f"sage_cli.cli.{COMMANDS[name]}")
    app = getattr(module, "app", None)
    if app is None:
        app = new_app(name)
        app.command(name)(module.command)
    command: Any = get_command(app)
    command.name = name
    command.rich_help_panel = next(panel for panel in PANELS if name in PANELS[panel])
    _take_types_from_flags(command)
    return command


def _take_types_from_flags(command: Any) -> None:
    """Leave the type of flags out of help texts: they take no value."""
    # the option of its help is made when it is first asked for
    command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))
    without_types_of_flags([*command.params, command._help_option])
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
