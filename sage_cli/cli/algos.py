"""`sage algos`: the table of algorithms."""

from __future__ import annotations

from rich.table import Table

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json
from sage_cli.config.algorithms import ALGORITHMS, algorithm_layer


def command(json: Json = False) -> None:
    """What each --algo sets, and how that differs from the others."""
    layers = {name: algorithm_layer(name) for name in ALGORITHMS}
    columns = {name: {**of["rl"], "anchor.schedule": of["anchor"]["schedule"]}
               for name, of in layers.items()}  # fmt: skip
    if json:
        emit(
            {
                name: {"source": row.source, "kl": row.kl_without_guide, **columns[name]}
                for name, row in ALGORITHMS.items()
            }
        )
        return
    table = Table("", *ALGORITHMS, box=None, padding=(0, 2, 0, 0))
    for key in columns["dapo"]:
        table.add_row(key, *(_shown(column[key]) for column in columns.values()))
    table.add_row("KL without a guide", *(row.kl_without_guide for row in ALGORITHMS.values()))
    console.print(table, "")
    for name, row in ALGORITHMS.items():
        console.print(f"[bold]{name}[/]  {row.source}")
    console.print("\nA guide works with every one of them: it brings the reverse KL it reshapes.")


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
