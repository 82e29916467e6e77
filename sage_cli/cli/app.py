"""The command line: `sage COMMAND`. Commands load their workflow only when they run."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from sage_cli.cli import (
    algos,
    compare,
    config,
    data,
    demo,
    evaluate,
    export,
    grade,
    guide,
    passk,
    power,
    rl,
    runs,
    samples,
    sft,
    suite,
    sweep,
)
from sage_cli.cli.console import wants_json
from sage_cli.cli.group import new_app
from sage_cli.cli.surroundings import prepare
from sage_cli.errors import Interrupted

prepare()
app = new_app("Shaped anchors for guided exploration in RLVR: train, measure, sweep, compare.")
app.command("sft")(sft.command)
app.command("rl")(rl.command)
app.command("eval")(evaluate.command)
app.command("passk")(passk.command)
app.command("compare")(compare.command)
app.command("power")(power.command)
app.command("sweep")(sweep.command)
app.command("grade")(grade.command)
app.command("export")(export.command)
app.command("algos")(algos.command)
app.command("demo")(demo.command)
app.add_typer(suite.app, name="suite")
app.add_typer(data.app, name="data")
app.add_typer(guide.app, name="guide")
app.add_typer(runs.app, name="runs")
app.add_typer(samples.app, name="samples")
app.add_typer(config.app, name="config")


def main() -> None:
    """The `sage` script; SIGTERM ends it in order, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    finally:
        if wants_json(sys.argv[1:]):  # nor may what libraries do at the end print there
            os.dup2(2, 1)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
