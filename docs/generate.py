"""Write docs/reference/ from the code.

python docs/generate.py          # writes the files
python docs/generate.py --check  # exits with 1 where one isn't current
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sage_cli.cli.app import command_named
from sage_cli.cli.listing import COMMANDS
from sage_cli.config.explain import Meaning, meanings_of, typed_line
from sage_cli.config.schema import settings
from sage_cli.evaluation.logs.registry import programs
from sage_cli.methods.loop import Method
from sage_cli.settings import own_code
from sage_cli.settings.elsewhere import ABSENT, COUNTERPARTS, PROGRAMS
from sage_cli.settings.section import built_in

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = "docs/reference"
HERE = Path(__file__).parent
MADE = "<!-- Made by docs/generate.py. -->\n\n"


def main() -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    own_code.entry_points = lambda **_: ()  # the reference describes this package alone
    made = files()
    stale = [name for name, text in made.items() if not _is_current(REPOSITORY / name, text)]
    for name in stale:
        if check:
            print(f"{name} is not current: run docs/generate.py")
        else:
            (REPOSITORY / name).write_text(made[name])
            print(f"{name} was written")
    return 1 if stale and check else 0


def files() -> dict[str, str]:
    """The text of every file that is made, by its path in the repository."""
    made = {
        "commands.md": "\n".join(_commands()),
        "settings.md": "\n".join(_settings()),
        "logs.md": "\n".join(_logs()),
        "coming-from.md": "\n".join(_counterparts()),
    }
    return {f"{REFERENCE}/{name}": MADE + text.rstrip() + "\n" for name, text in made.items()}


def _is_current(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text() == text


def _commands() -> Iterator[str]:
    yield (
        "# Commands\n\nEvery command with its options. `sage COMMAND --help` prints the same, "
        "grouped and with an example.\n"
    )
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
        yield "| option | meaning |\n|---|---|"
        for opts, one in rows:
            yield f"| `{opts}` | {_cell(getattr(one, 'help', None) or '')} |"
        yield ""


def _settings() -> Iterator[str]:
    yield (
        "# Settings\n\nEvery setting by its dotted name, with its type, default and meaning. You "
        "can type it after `--set` or write it into a YAML preset, and `sage config explain NAME` "
        "prints its meaning. *Cosmetic* settings change no result, so a run with another value "
        "has the same run hash. Defaults are those of the paper where it has one; presets and "
        f"`--algo` override them.\n\nMethods: {', '.join(built_in(Method))} (`sage config "
        "algos`).\n"
    )
    section = ""
    for key, setting in settings().items():
        meanings = meanings_of(setting)
        if key.partition(".")[0] != section:
            section = key.partition(".")[0]
            about = [f"- `{one.member}`: {one.section}" for one in meanings if one.member]
            yield f"\n## {section}\n\n{chr(10).join(about) or meanings[0].section}\n"
            yield "| setting | type | default | meaning |\n|---|---|---|---|"
        yield from dict.fromkeys(
            map(_setting, meanings)
        )  # members of a union often share a section


def _logs() -> Iterator[str]:
    yield (
        "# Files of other programs\n\n`sage passk`, `compare`, `power`, `grade` and "
        "`samples import` detect which program wrote a file. This table lists the programs, what "
        "counts as one sample, and which value says whether it is correct. "
        "[Measure with sage](../tutorials/measure-with-sage.md) shows how to use such files.\n"
    )
    yield "| format | program | file | a sample is | its verdict |\n|---|---|---|---|---|"
    for program in programs():
        cells = (f"`{program.name}`", program.title, program.file, program.sample, program.verdict)
        yield f"| {' | '.join(map(_cell, cells))} |"


def _counterparts() -> Iterator[str]:
    yield (HERE / "coming_from.md").read_text().rstrip() + "\n"
    yield f"| what to type | {' | '.join(PROGRAMS)} | note |\n|---|{'---|' * len(PROGRAMS)}---|"
    for row in COUNTERPARTS:
        typed = typed_line(row.setting, row.example)
        cells = [f"`{name}`" if name else "–" for name in (typed, *row.names)]
        note = row.note or _first_sentence(row.setting)
        yield f"| {' | '.join(map(_cell, [*cells, note[0].upper() + note[1:]]))} |"
    yield "\n## Names without a setting here\n\n| name | what to do |\n|---|---|"
    for name, instead in ABSENT.items():
        yield f"| `{name}` | {_cell(instead)} |"
    yield (
        "\n`sage rl` has no agents with tools, no images, no asynchronous rollouts, no SGLang and "
        "no Megatron. vLLM, Transformers or its own loop sample the completions. "
        "[Limits](../limits.md) says what has not been run."
    )


def _first_sentence(key: str) -> str:
    """Return the first sentence of a setting's meaning."""
    (meaning, *_) = meanings_of(settings()[key])
    return meaning.meaning.partition(". ")[0].rstrip(".")


def _setting(one: Meaning) -> str:
    of = f" ({one.member})" if one.member else ""
    default = one.default if isinstance(one.default, str) else json.dumps(one.default)
    default = default if len(default) <= 60 else default[:57] + "..."
    choices = f": {', '.join(one.choices)}" if one.choices else ""
    cosmetic = " *Cosmetic.*" if one.cosmetic else ""
    code = f"`{default}`" if default else ""
    cells = (f"`{one.key}`{of}", one.type + choices, code, one.meaning + cosmetic)
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """One line of a table's cell: outside code `<` would begin an element."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(
        part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts)
    )


if __name__ == "__main__":
    sys.exit(main())
