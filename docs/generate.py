"""Write docs/reference/ from the code.

python docs/generate.py          # writes the files
python docs/generate.py --check  # exits with 1 where one isn't current
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from sage_cli.cli.app import COMMANDS, command_named
from sage_cli.cli.terminal.schemas import ANSWERS, ERROR, schema
from sage_cli.config.meaning import Meaning, meanings
from sage_cli.methods.method import Method
from sage_cli.settings import plugins
from sage_cli.settings.extensible import built_in
from sage_cli.store.runs.metric_keys import RECORDED

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = "docs/reference"
MADE = "<!-- Made by docs/generate.py. -->\n\n"
SECTIONS = "SageConfig"
"""What an answer says of settings is on a page of its own."""

ANSWERED = """# JSON

With `--json` a command prints one object on stdout and nothing else. This page shows its form; a
schema says the same to a validator. `sage schema` lists the commands that have one, and
`sage schema runs list` prints one (JSON Schema 2020-12). On the documentation's site they are below
`reference/schemas/`.

A key that is marked with `?` isn't there in every answer; all others are. A number that is
undefined is `null`, an infinite one the text `"inf"` or `"-inf"`. A command that fails, by its exit
code, prints the object of [errors](#errors) instead. The number in a schema's `$id` is raised when
a key goes away, or gets another name, type or meaning. A new key doesn't raise it: each release's
schemas are those of its own answers.
"""


def main() -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    plugins.entry_points = lambda **_: ()  # the reference describes this package alone
    made = files()
    stale = [name for name, text in made.items() if not _is_current(REPOSITORY / name, text)]
    for name in stale:
        print(f"{name} is not current: run docs/generate.py")
        if not check:
            (REPOSITORY / name).write_text(made[name])
    return 1 if stale and check else 0


def files() -> dict[str, str]:
    """The text of every file that is made, by its path in the repository."""
    made = {
        "commands.md": "\n".join(_commands()),
        "settings.md": "\n".join(_settings()),
        "records.md": "\n".join(_records()),
        "json.md": "\n".join(_answers({name: schema(name) for name in ANSWERS})),
    }
    return {f"{REFERENCE}/{name}": MADE + text.rstrip() + "\n" for name, text in made.items()}


def _is_current(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text() == text


def _commands() -> Iterator[str]:
    yield "# Commands\n\n`sage COMMAND --help` prints the same.\n"
    for name in COMMANDS:
        yield from _command(f"sage {name}", command_named(name))


def _command(typed: str, command: Any) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield from _own(typed, command)
    for name, one in inner.items():
        yield from _command(f"{typed} {name}", one)


def _own(typed: str, command: Any) -> Iterator[str]:
    """Yield the section of a command by itself."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    names = "".join(f" {one.name.rstrip('_').upper()}" for one in arguments)
    yield f"## {typed}\n\n```\n{typed}{names}\n```\n\n{inspect.cleandoc(command.help or '')}\n"
    rows = [(", ".join(one.opts), one) for one in command.params if one.name != "help"]
    if rows:
        yield "| | |\n|---|---|"
        for opts, one in rows:
            yield f"| `{opts}` | {_cell(getattr(one, 'help', None) or '')} |"
        yield ""


def _settings() -> Iterator[str]:
    yield (
        "# Settings\n\nEvery setting by its dotted name, as `--set` and YAML presets take it and "
        "`sage config explain` prints it. *Cosmetic* settings change no result: another value "
        "names the same run. Defaults are the paper's where it has one; presets and `--algo` put "
        f"others over them.\n\nAlgorithms: {', '.join(built_in(Method))} (`sage config algos`).\n"
    )
    section = ""
    for key, many in meanings().items():
        if key.partition(".")[0] != section:
            section = key.partition(".")[0]
            about = [f"- `{one.member}`: {one.section}" for one in many if one.member]
            yield f"\n## {section}\n\n{chr(10).join(about) or many[0].section}\n"
            yield "| setting | type | default | |\n|---|---|---|---|"
        yield from dict.fromkeys(map(_setting, many))  # members of a union often share a section


def _setting(one: Meaning) -> str:
    of = f" ({one.member})" if one.member else ""
    default = one.default if isinstance(one.default, str) else json.dumps(one.default)
    default = default if len(default) <= 60 else default[:57] + "..."
    choices = f": {', '.join(one.choices)}" if one.choices else ""
    cosmetic = " *Cosmetic.*" if one.cosmetic else ""
    code = f"`{default}`" if default else ""
    cells = (f"`{one.key}`{of}", one.type + choices, code, one.meaning + cosmetic)
    return f"| {' | '.join(map(_cell, cells))} |"


def _records() -> Iterator[str]:
    yield (
        "# Records\n\nA line of `runs/ID/metrics.jsonl` is an optimiser step. Not every training "
        "has every key.\n\n| key | what it is |\n|---|---|"
    )
    for key, text in RECORDED.items():
        yield f"| `{key}` | {_cell(text)} |"


def _answers(schemas: Mapping[str, Any]) -> Iterator[str]:
    yield ANSWERED
    uses = Counter(name for one in schemas.values() for name in one.get("$defs", {}))
    shared = {name for name, times in uses.items() if times > 1}
    parts = {name: part for one in schemas.values() for name, part in one.get("$defs", {}).items()}
    for name, one in schemas.items():
        yield f"## {'Errors' if name == ERROR else f'sage {name}'}\n"
        yield f"Schema: `sage schema {name}`.\n"
        if len(several := one.get("anyOf", [one])) > 1:
            yield "One of these:\n"
        for answer in several:
            yield from _answer(answer, parts, shared)
    yield "## Parts\n\nWhat several answers hold.\n"
    for name in sorted(shared - {SECTIONS}):
        yield f"### {name}\n"
        yield from _answer(parts[name], parts, shared - {name})


def _answer(answer: Mapping[str, Any], parts: Mapping[str, Any], shared: Set[str]) -> Iterator[str]:
    name = answer.get("$ref", "").rpartition("/")[2]
    if name == SECTIONS:
        yield "Every [setting](settings.md), by section.\n"
        return
    whole = parts[name] if name else answer
    said = " ".join(whole.get("description", "").split())
    if name in shared:
        yield f"[{name}](#{name.lower()}): {said}\n"
        return
    if name or said:
        yield f"{f'**{name}**: ' if name else ''}{said}\n"
    yield f"```\n{_form(whole, parts, shared, '')}\n```\n"


def _form(one: Any, parts: Mapping[str, Any], shared: Set[str], indent: str) -> str:
    """A schema as its JSON would look, with types in the places of values."""
    form = partial(_form, parts=parts, shared=shared, indent=indent)
    if name := one.get("$ref", "").rpartition("/")[2]:
        return name if name in {*shared, SECTIONS} else form(parts[name])
    if "anyOf" in one:
        return " or ".join(
            dict.fromkeys(form(each) for each in one["anyOf"] if "inf" not in each.get("enum", ()))
        )
    if "enum" in one or "const" in one:
        return " or ".join(json.dumps(each) for each in one.get("enum", [one.get("const")]))
    if one.get("type") == "array":
        if "prefixItems" in one:
            return f"[{', '.join(map(form, one['prefixItems']))}]"
        return f"[{form(one.get('items', {}))}, ...]"
    if one.get("type") == "object":
        return _object(one, parts, shared, indent)
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    kind = one.get("type", "anything")
    return words.get(kind, kind)


def _object(one: Any, parts: Mapping[str, Any], shared: Set[str], indent: str) -> str:
    inner, rest = indent + "  ", one.get("additionalProperties", True)
    lines = [
        f'{inner}"{key}"{"" if key in one.get("required", ()) else "?"}: '
        + _form(value, parts, shared, inner)
        for key, value in one.get("properties", {}).items()
    ]
    if rest is not False:
        lines.append(f"{inner}text: {_form({} if rest is True else rest, parts, shared, inner)}")
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _cell(text: str) -> str:
    """One line of a table's cell: outside code `<` would begin an element."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(
        part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts)
    )


if __name__ == "__main__":
    sys.exit(main())
