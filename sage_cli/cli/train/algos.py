"""`sage algos`: the methods that `--algo` chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from sage_cli.cli.options import Json
from sage_cli.cli.terminal.console import console, emit

if TYPE_CHECKING:
    from sage_cli.methods.method import Method


def command(json: Json = False) -> None:
    """List the methods: the settings of each --algo, its source, and what differs from that."""
    from sage_cli.methods.method import Method

    methods = {name: Method.named(name) for name in Method.names()}
    if json:
        emit({name: _facts(method) for name, method in methods.items()})
        return
    table = Table("--algo", "settings", "form", "read from", box=None, padding=(0, 2, 0, 0))
    for name, method in methods.items():
        table.add_row(f"[bold]{name}[/]", _settings(method), method.fidelity, method.read_from)
    console.print(table, "")
    for name, method in methods.items():
        differs = f"; other than there: {method.differs}" if method.differs else ""
        console.print(f"[bold]{name}[/]  {method.source}{differs}")
    unguided = [name for name, method in methods.items() if not method.takes_a_guide]
    console.print(
        f"\nA guide works with every one of them but {', '.join(unguided)}: it brings the reverse "
        "KL it reshapes. Settings that are not named are as under grpo; docs/methods.md says more."
    )


def _facts(method: type[Method]) -> dict[str, Any]:
    return {
        "source": method.source,
        "form": method.fidelity,
        "read": method.read_from,
        "differs": method.differs or None,
        "kl": method.kl_without_guide,
        "anchor": dict(method.anchored),
        **_own(method),
    }


def _own(method: type[Method]) -> dict[str, Any]:
    """Return the method's settings: its loss, and what is otherwise than under grpo."""
    from sage_cli.methods.grpo import Grpo

    usual, fields = Grpo.model_fields, method.model_fields
    return {
        name: field.default
        for name, field in fields.items()
        if name != "algo"
        and (name == "loss" or name not in usual or field.default != usual[name].default)
    }


def _settings(method: type[Method]) -> str:
    """`loss dapo, epsilon_high 0.28, ...`: what isn't GRPO's, and the KL."""
    own = _own(method) | {f"anchor.{key}": value for key, value in method.anchored.items()}
    kl = "" if method.kl_without_guide == "reverse" else ", no KL without a guide"
    shown = [f"{key} {_shown(value)}" for key, value in own.items() if value is not None]
    return ", ".join(shown) + kl


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, str) and not value.isprintable() else str(value)
