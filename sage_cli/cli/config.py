"""`sage config show|explain|check`: settings, what they mean and where each came from."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sage_cli.cli import completions
from sage_cli.cli.group import new_app
from sage_cli.cli.options import Algo, ConfigFile, Guide, Json, Presets, Sets, load_config
from sage_cli.cli.terminal.console import console, emit

if TYPE_CHECKING:
    from sage_cli.cli.terminal.answers import CheckedAnswer, SettingsAnswer
    from sage_cli.config.meaning import Meaning

app = new_app("Show, explain and check configurations.")


@app.command()
def show(
    algo: Algo = None,
    guide: Guide = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show where each value came from.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the value of every setting under presets, flags and --set."""
    loaded = load_config(preset, config, set_, rl={"algo": algo}, guide={"name": guide})
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


@app.command()
def explain(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="A setting, the end of one, or a section.",
            autocompletion=completions.setting_names,
        ),
    ],
    json: Json = False,
) -> None:
    """Explain a setting: type, default, choices, and whether it changes results."""
    from sage_cli.config.meaning import meant_settings

    found = meant_settings(key)
    if json:
        answer: SettingsAnswer = {"settings": [one for many in found.values() for one in many]}
        emit(answer)
        return
    for many in found.values():
        for one in many:
            _explain(one)


def _explain(one: Meaning) -> None:
    of = f"  (for {one.member})" if one.member else ""
    choices = f": {', '.join(one.choices)}" if one.choices else ""
    default = one.default if isinstance(one.default, str) else dumps(one.default)
    counts = "no: it changes no result" if one.cosmetic else "yes: another value names another run"
    facts = {
        "type": one.type + choices, "default": default, "decides results": counts,
        "section": one.section,
    }  # fmt: skip
    console.print(Text.assemble((one.key, "bold"), of), Text(one.meaning))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table, "")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A YAML file of settings.")],
    json: Json = False,
) -> None:
    """Check a file of settings and report every problem at once."""
    from sage_cli.store.mirrors.follower import require_mirrors

    require_mirrors(load_config([str(file)], None, None).config.tracking)
    if json:
        answer: CheckedAnswer = {"file": str(file), "valid": True}
        emit(answer)
    else:
        console.print(f"[green]{file} is a valid configuration[/]")
