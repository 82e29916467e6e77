"""`sage demo`: the paper's effect in miniature, in a few minutes on a laptop."""

from __future__ import annotations

from sage_cli.cli.console import console, speak
from sage_cli.cli.live import Live
from sage_cli.cli.options import Sets
from sage_cli.cli.passk import show


def command(set_: Sets = None) -> None:
    """Train a base, then DAPO without KL and with the branch guide, and draw their pass@k."""
    speak(json=False)
    from sage_cli.workflows.demo import demo

    with Live() as live:
        result = demo("tiny", tuple(set_ or ()), live)
    show(result.curves)
    console.print("runs:", *(f"  {run.folder}" for run in result.runs), sep="\n")
    console.print(f"picture: [bold]{result.curves.picture}[/]")
