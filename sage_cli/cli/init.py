"""`sage init`: begin a study of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json
from sage_cli.errors import ConfigurationError


def command(
    folder: Annotated[
        Path, typer.Argument(help="Folder to create; it must not exist yet, or be empty.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Model to train: a folder, or ORG/MODEL of the Hub.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Problems to train it on: a file, or a name of a data set.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a small study with a preset, problems, a suite, and a README with its commands.

    With `--model` and `--data` it is a study of that model on those problems, of which a tenth is
    held out where they are a file.
    """
    from sage_cli.settings.presets import shipped
    from sage_cli.store.files import write_text

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "isn't empty" if folder.is_dir() else "is a file"
        raise ConfigurationError(
            f"{folder} {what}", "name a new folder, for example `sage init my-study`"
        )
    if (model is None) != (data is None):
        lacking = "--data" if data is None else "--model"
        raise ConfigurationError(
            f"a study of your own needs a model and problems, and {lacking} is not given",
            "give --model MODEL --data FILE, or neither for the laptop's study",
        )
    words: Mapping[str, str] = {}
    name = "study"
    if model is not None and data is not None:
        words, name = own_words(model, data), "own-model"
    template, written = shipped("templates") / name, []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        written.append(folder / source.relative_to(template))
        text = source.read_text(encoding="utf-8")
        write_text(written[-1], Template(text).substitute(words) if words else text)
    if json:
        emit({"folder": str(folder), "written": [str(file) for file in written]})
        return
    for file in written:
        console.print(f"wrote {file}", soft_wrap=True)
    first = (
        "sage doctor -p preset.yaml --generate    # then as README.md says"
        if words
        else "sage rl -p tiny -p preset.yaml --algo dapo --guide branch"
    )
    console.print(f"\ncd {folder}\n{first}", soft_wrap=True)


def own_words(model: str, data: str) -> Mapping[str, str]:
    """Return what a study of `model` on `data` has in the places of its template's words.

    Files and folders are named by their whole paths, because the study has a folder of its own.
    Raises SageError for rows that can't be read.
    """
    from sage_cli.models.folders import tokenizer_facts
    from sage_cli.problems.load import is_here, load_problems
    from sage_cli.problems.registry import is_file_name
    from sage_cli.settings.inputs import DataSection

    if is_file_name(data):
        data = str(Path(data).resolve())
    if is_here(data, DataSection()):
        load_problems(data, DataSection())
    folder = Path(model).resolve()
    facts = tokenizer_facts(folder) if folder.is_dir() else None
    chat = facts is None or facts.chat_template is not None
    parts = (f"{data}:train", f"{data}:dev") if is_file_name(data) else (data, "math500")
    return {
        "model": str(folder) if folder.is_dir() else model,
        "data": data,
        "train": parts[0],
        "dev": parts[1],
        "format": "chat" if chat else "plain",
    }
