"""`sage algos`: the table of algorithms."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json
from sage_cli.config.advantages import advantage_options
from sage_cli.config.algorithm import Algorithm
from sage_cli.config.algorithms import ALGORITHMS, algorithm_layer, algorithm_settings


def command(json: Json = False) -> None:
    """List the algorithms: what each --algo sets, its source, and what differs from that."""
    if json:
        emit({name: _facts(name, row) for name, row in ALGORITHMS.items()})
        return
    table = Table("--algo", "what it sets", "form", "read from", box=None, padding=(0, 2, 0, 0))
    for name, row in ALGORITHMS.items():
        table.add_row(f"[bold]{name}[/]", _settings(name, row), row.form, row.read)
    console.print(table, "")
    for name, row in ALGORITHMS.items():
        differs = f"; other than there: {row.differs}" if row.differs else ""
        console.print(f"[bold]{name}[/]  {row.source}{differs}")
    console.print(
        "\nA guide works with every one of them but guided-dpo: it brings the reverse KL it "
        "reshapes. What isn't named is as under grpo; docs/methods.md says more."
    )


def _facts(name: str, row: Algorithm) -> dict[str, Any]:
    return {
        "source": row.source,
        "form": row.form,
        "read": row.read,
        "differs": row.differs or None,
        "kl": row.kl_without_guide,
        **algorithm_settings(name),
        "anchor": algorithm_layer(name)["anchor"],
        "advantage_options": _options(row),
    }


def _settings(name: str, row: Algorithm) -> str:
    """`loss dapo, advantage group, epsilon_high 0.28, ...`: what isn't GRPO's, and the KL."""
    plain = algorithm_settings("grpo")
    own = {key: value for key, value in algorithm_settings(name).items() if value != plain[key]}
    own = {"loss": row.rl["loss"], "advantage": row.rl["advantage"], **own, **_options(row)}
    own |= {f"anchor.{key}": value for key, value in row.anchor.items()}
    kl = "" if row.kl_without_guide == "reverse" else ", no KL without a guide"
    settings = {key: _shown(value) for key, value in own.items() if value is not None}
    return ", ".join(f"{key} {value}" for key, value in settings.items()) + kl


def _options(row: Algorithm) -> dict[str, Any]:
    return advantage_options(row.rl["advantage"], {}).model_dump()


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
