"""The programs whose files are read, found in this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.golds import with_golds
from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_values import with_field
from sage_cli.evaluation.logs.source import LogSource, expecting

if TYPE_CHECKING:
    from sage_cli.evaluation.logs.log import ReadOptions

_REPAIR = "copy the file again, or write its rows as {question, gold, completion, correct}"
_PLAIN = "jsonl"
"""Rows of one's own, which are tried last: any program may call a column `question`."""


@cache
def programs() -> tuple[Program, ...]:
    """Return the `PROGRAM` of each file of this folder, in the order in which they are tried."""
    folder = Path(__file__).parent
    modules = (
        import_module(f"{__package__}.{module.name}") for module in iter_modules([str(folder)])
    )
    listed = [module.PROGRAM for module in modules if hasattr(module, "PROGRAM")]
    return tuple(sorted(listed, key=lambda program: (program.name == _PLAIN, program.name)))


def program_titles() -> str:
    """Return the programs' names for a sentence: `logs of A, B or C`."""
    *titles, last = [program.title for program in programs() if program.name != _PLAIN]
    return f"{', '.join(titles)} or {last}"


def detect_program(path: Path) -> Program:
    """Return the program that wrote a file. Raises DataError where it has no known form."""
    with expecting(path, _REPAIR), LogSource(path) as source:
        return _recognised(source, ReadOptions())


def _recognised(source: LogSource, reading: ReadOptions) -> Program:
    program = next((program for program in programs() if program.recognise(source)), None)
    if program is None and {"completion", "correct"} & reading.fields.keys():
        program = next(program for program in programs() if program.name == _PLAIN)
    if program is None:
        raise DataError(
            f"{source} does not have the form of any known program; it begins with "
            f"{', '.join(map(str, islice(source.first, 8))) or 'nothing'}",
            "name its columns, for example --fields "
            "problem=task,question=prompt,completion=response,correct=is_correct,gold=answer, or "
            'write rows as {"question": ..., "gold": ..., "completion": ...}',
        )
    return program


def read_log(path: Path, reading: ReadOptions | None = None) -> Log:
    """Return the samples of a file of the program whose form it has.

    Raises DataError for a file that isn't there, of no known form, or without samples.
    """
    reading = reading or ReadOptions()
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    with expecting(path, _REPAIR), LogSource(path) as source:
        program = _recognised(source, reading)
        if reading.fields and program.has_fixed_columns:
            raise DataError(
                f"{source} is a log of {program.title}, which names its columns itself",
                "leave out --fields",
            )
        log = with_golds(program.read(source, reading), reading.golds).encoded()
        if reading.field is not None:
            log = with_field(log, source, reading.field)
    if not log.samples:
        left_out = f": {'; '.join(log.all_notes)}" if log.left_out else ""
        raise DataError(f"{path} has no samples{left_out}")
    return log


def is_file(name: str) -> bool:
    """Return True if `name` is a file of samples or counts, and neither a run nor a model."""
    from sage_cli.problems.row_files import is_row_file

    path = Path(name)
    return path.suffix == ".eval" or is_row_file(path)
