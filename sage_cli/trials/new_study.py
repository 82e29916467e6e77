"""A new folder in which a study of one's own begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

from sage_cli.errors import ConfigurationError
from sage_cli.models.tokenizer_facts import tokenizer_facts
from sage_cli.problems.load import is_here, load_problems
from sage_cli.problems.registry import is_file_name
from sage_cli.settings.data import DataSection
from sage_cli.settings.shipped import shipped
from sage_cli.store.files import write_text


def create_study(folder: Path, model: str | None, data: str | None) -> list[Path]:
    """Write a template into `folder` and return its files; with a model and data it is of these.

    Raises ConfigurationError for a folder that isn't empty and for only one of model and data, and
    SageError for rows that can't be read.
    """
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
        words, name = _words_of(model, data), "own-model"
    template, written = shipped("templates") / name, []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        written.append(folder / source.relative_to(template))
        text = source.read_text(encoding="utf-8")
        write_text(written[-1], Template(text).substitute(words) if words else text)
    return written


def _words_of(model: str, data: str) -> Mapping[str, str]:
    """Return what a study of `model` on `data` has in the places of its template's words.

    Files and folders are named by their whole paths, because the study has a folder of its own.
    """
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
