"""Which program wrote a file, and its samples."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import TEXTS, ForeignFile, ForeignSample
from sage_cli.evaluation.imported.formats import (
    every_eval_ever,
    inspect_log,
    jsonl,
    lighteval,
    lm_eval,
    verl,
)
from sage_cli.json_value import json_value
from sage_cli.problems.files import SUFFIXES, read_file
from sage_cli.store.samples.completion import encodable


@dataclass(frozen=True)
class Format:
    """A program's file: `recognise` is asked for its first row, `read` takes a path and a score."""

    title: str
    recognise: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Path, str | None], ForeignFile]


FORMATS: Mapping[str, Format] = {
    "lm-eval": Format("samples of lm-eval", lm_eval.NEEDED.issubset, lm_eval.read),
    "lighteval": Format("details of lighteval", lighteval.NEEDED.issubset, lighteval.read),
    "inspect": Format("a log of Inspect", inspect_log.NEEDED.issubset, inspect_log.read),
    "verl": Format("a dump of verl", verl.NEEDED.issubset, verl.read),
    "every-eval-ever": Format(
        "instances of Every Eval Ever", every_eval_ever.NEEDED.issubset, every_eval_ever.read
    ),
    "jsonl": Format("rows of questions and completions", jsonl.recognise, jsonl.read),
}
"""By the name that `--from` takes, in the order in which a file is tried."""


def read_foreign(path: Path, program: str | None, score: str | None) -> ForeignFile:
    """Return the samples of a file, by default of the program whose form it has.

    Raises DataError for a file that isn't there, of no known form, or without samples.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    if program is not None and program not in FORMATS:
        raise DataError(f"no form is called '{program}'", f"one of: {', '.join(FORMATS)}")
    found = FORMATS[program or detected(path)].read(path, score)
    if not found.samples:
        raise DataError(f"{path} holds no samples")
    return _storable(found)


def _storable(found: ForeignFile) -> ForeignFile:
    """Return the file with texts that can be encoded, and a note where one was changed."""
    samples = [_encodable(sample) for sample in found.samples]
    changed = sum(new is not old for new, old in zip(samples, found.samples, strict=True))
    count = "1 sample" if changed == 1 else f"{changed} samples"
    notes = (f"{count}: lone surrogates were replaced by U+FFFD",) if changed else ()
    settings = {
        key: encodable(value) if isinstance(value, str) else value
        for key, value in found.settings.items()
    }
    score = None if found.score is None else encodable(found.score)
    return ForeignFile(found.program, samples, score, settings, (*found.notes, *notes))


def _encodable(sample: ForeignSample) -> ForeignSample:
    texts = {name: getattr(sample, name) for name in TEXTS}
    changed: dict[str, Any] = {
        name: encodable(text)
        for name, text in texts.items()
        if text is not None and encodable(text) != text
    }
    return replace(sample, **changed) if changed else sample


def detected(path: Path) -> str:
    """Return the name of the form of a file. Raises DataError where it has none of them."""
    row = _first(path)
    name = next((name for name, form in FORMATS.items() if form.recognise(row)), None)
    if name is None:
        raise DataError(
            f"{path} has the form of no program that is known; it begins with "
            f"{', '.join(map(str, islice(row, 8))) or 'nothing'}",
            f"name its form with --from {', '.join(FORMATS)}, or write rows as "
            '{"question": ..., "gold": ..., "completion": ...}',
        )
    return name


def _first(path: Path) -> Mapping[str, Any]:
    """Return the first row of a file, or the whole of a JSON object."""
    if zipfile.is_zipfile(path):
        return {"eval": None, "status": None, "samples": None}
    if path.suffix == ".json":
        try:
            value = json_value(path.read_bytes())
        except ValueError as error:
            raise DataError(f"{path} isn't JSON: {error}") from None
        return value if isinstance(value, dict) else {}
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path} is neither JSONL, CSV, Parquet, JSON nor a log of Inspect",
            "name the file with the samples themselves",
        )
    return next((values for _, values in read_file(path)), {})
