"""The command line: `sage COMMAND`. Commands load their workflow only when they run."""

from __future__ import annotations

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
    sft,
    sweep,
)
from sage_cli.cli.group import new_app
from sage_cli.cli.surroundings import prepare

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
app.add_typer(data.app, name="data")
app.add_typer(guide.app, name="guide")
app.add_typer(runs.app, name="runs")
app.add_typer(config.app, name="config")


def main() -> None:
    """The `sage` script."""
    app()
