"""`sage config`: settings, what they mean, where each came from; methods and presets."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit

if TYPE_CHECKING:
    from sage_cli.config.explain import Meaning
    from sage_cli.methods.loop import Method

app = new_app("Show and explain configurations, and list methods and presets.")


@app.command(epilog="Example: sage config show --preset tiny --origin")
def show(
    algo: options.Algo = None,
    guide: options.GuideName = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show the origin of each value.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Print the value of every setting, after presets, flags and --set."""
    loaded = options.load_typed(preset, config, set_, rl={"algo": algo}, guide={"name": guide})
    if json:
        values = loaded.config.model_dump(mode="json")
        emit({"config": values, "origins": dict(loaded.origins)} if origin else values)
        return
    table = Table(
        "setting", "value", *(["origin"] if origin else []), box=None, padding=(0, 2, 0, 0)
    )
    for name, value, source in loaded.table():
        style = "" if source == "default" else "bold"
        table.add_row(name, escape(str(value)), *([escape(source)] if origin else []), style=style)
    console.print(table)


@app.command(epilog="Example: sage config explain guide.tau")
def explain(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Name of a setting, the end of one, or a section.")
    ],
    json: options.Json = False,
) -> None:
    """Explain a setting: its type, default, choices, and whether it changes results."""
    from sage_cli.config.explain import meant_settings

    meanings = meant_settings(key)
    if json:
        emit({"settings": [meaning for many in meanings.values() for meaning in many]})
        return
    for many in meanings.values():
        for meaning in many:
            _explain(meaning)


def _explain(meaning: Meaning) -> None:
    member = f"  (for {meaning.member})" if meaning.member else ""
    choices = f": {', '.join(meaning.choices)}" if meaning.choices else ""
    default = meaning.default if isinstance(meaning.default, str) else dumps(meaning.default)
    counts = (
        "no, a run keeps its ID if it changes"
        if meaning.cosmetic
        else "yes, a run with another value has another ID"
    )
    facts = {
        "type": meaning.type + choices,
        "default": default,
        "changes results": counts,
        "section": meaning.section,
    }
    console.print(Text.assemble((meaning.key, "bold"), member), Text(meaning.meaning))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table, "")


@app.command(epilog="Example: sage config algos")
def algos(json: options.Json = False) -> None:
    """List the methods: the settings of each --algo, its source, and differences from it."""
    from sage_cli.methods.loop import Method

    methods = {name: Method.named(name) for name in Method.names()}
    if json:
        emit({name: _facts(method) for name, method in methods.items()})
        return
    table = Table("--algo", "settings", "fidelity", "source", box=None, padding=(0, 2, 0, 0))
    for name, method in methods.items():
        table.add_row(f"[bold]{name}[/]", _settings(method), method.fidelity, method.read_from)
    console.print(table, "")
    for name, method in methods.items():
        differs = f"; differences: {method.differs}" if method.differs else ""
        console.print(f"[bold]{name}[/]  {method.source}{differs}")
    unguided = [name for name, method in methods.items() if not method.takes_a_guide]
    console.print(
        f"\nA guide can be combined with every method except {', '.join(unguided)}; it adds the "
        "reverse KL term that it reshapes. Settings that are not listed are those of grpo. A "
        "reduced method lacks parts of the published one. The source is what we read it from: "
        "the paper, the authors' code, or (secondary) what others write of it. See docs/methods.md."
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


@app.command(epilog="Example: sage config presets")
def presets(json: options.Json = False) -> None:
    """List the presets that come with sage."""
    from sage_cli.settings.presets import preset_about, preset_names

    about = {name: preset_about(name) for name in preset_names()}
    if json:
        emit({"presets": [{"name": name, "about": text} for name, text in about.items()]})
        return
    table = Table("--preset", "about", box=None, padding=(0, 2, 0, 0))
    for name, text in about.items():
        table.add_row(f"[bold]{name}[/]", Text(text))
    console.print(table)
