"""`sage grade`: the grades of a file of golds and completions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import options
from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.logs.registry import program_titles
from sage_cli.settings.judge_names import BUILT_IN_JUDGES, Extraction, GradingMode

if TYPE_CHECKING:
    from sage_cli.evaluation.graded_file import GradedFile
    from sage_cli.evaluation.logs.log import Log

_SHOWN = 20
_EXTRACT = "Place of the answer in a completion (default: grading.extract, or the prompt's)."
_JUDGES = f"{', '.join(BUILT_IN_JUDGES)}, or file.py:function (default: grading.judge, or math)."


Mode = Literal[GradingMode, "both"]


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "JSONL file with gold and completion (or completions), or a log of "
                f"{program_titles()}."
            )
        ),
    ],
    mode: Annotated[
        Mode | None,
        typer.Option(help="Grading mode: strict, math-verify or both (default: grading.mode)."),
    ] = None,
    extract: Annotated[Extraction | None, typer.Option(help=_EXTRACT)] = None,
    judge: Annotated[str | None, typer.Option(help=_JUDGES)] = None,
    score: options.ScoreNames = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    preset: options.Presets = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Grade the completions in a file; --mode both shows where sage and Math-Verify disagree."""
    from sage_cli.evaluation.file_judge import grading_settings
    from sage_cli.evaluation.graded_file import (
        grade_file,
        grade_log,
        judge_of_file,
        read_foreign_log,
    )
    from sage_cli.settings.judge_names import MODES

    typed = {"extract": extract, "mode": None if mode == "both" else mode, "judge": judge}
    flags = {"grading": {name: value for name, value in typed.items() if value}}
    if len(score or ()) > 1:
        raise ConfigurationError("--score names several scores for one file", "type it once")
    named = next(iter(score or ()), None)
    log = read_foreign_log(file, options.file_reading(fields, golds, drop_invalidated, named))
    if log is not None:
        flags["grading"] = {**grading_settings(log), "judge": "math", **flags["grading"]}
    config = options.load_config(preset, None, set_, "grade", run={"root": runs}, **flags)
    modes = MODES if mode == "both" else (config.grading.mode,)
    if judge_of_file(config) == "math" and config.grading.extract == "text" and mode == "both":
        raise ConfigurationError(
            "--mode both: these answers can be anywhere in the text, and the strict "
            "judge does not search a text",
            "use --mode math-verify --extract text, or --extract tags-then-boxed",
        )
    with Live() as live:
        graded = (
            grade_log(log, file, config, modes, live)
            if log
            else grade_file(file, config, modes, live)
        )
    if json:
        told = {} if log is None else _told(log)
        emit({**_answer(file, judge_of_file(config), graded), **told})
    else:
        _show(graded, "sample" if log else "line")
        for note in log.all_notes if log else ():
            console.print(escape(note), style="dim", soft_wrap=True)


def _told(log: Log) -> dict[str, Any]:
    """Return what was read of another program's file, and what was left out."""
    return {
        "program": log.program,
        "left_out": dict(log.left_out),
        "notes": list(log.all_notes),
    }


def _answer(file: Path, judge: str, graded: GradedFile) -> dict[str, Any]:
    first = next(iter(graded.grades.values()))
    rows: list[Any] = [
        {"line": item.line, "index": item.index}
        | {mode: grades[number].status for mode, grades in graded.grades.items()}
        | {
            "extracted": _encodable(first[number].extracted),
            "reason": _encodable(first[number].reason),
        }
        for number, item in enumerate(graded.items)
    ]
    return {
        "file": str(file),
        "judge": judge,
        "statuses": {mode: graded.counts(mode) for mode in graded.grades},
        "differences": [{"line": item.line, "index": item.index} for item, _ in graded.differences],
        "malformed": graded.malformed,
        "grades": rows,
    }


def _encodable(text: str | None) -> str | None:
    """Lone surrogates, which no output stream takes, as escapes."""
    return text and text.encode("utf-8", "backslashreplace").decode()


def _show(graded: GradedFile, unit: str) -> None:
    """Print counts and differences; `unit` is what an item's line is."""
    from sage_cli.grading.grades import status_in_words

    table = Table("status", box=None, padding=(0, 2, 0, 0))
    for mode in graded.grades:
        table.add_column(mode, justify="right")
    columns = [graded.counts(mode) for mode in graded.grades]
    for status in columns[0]:
        table.add_row(status_in_words(status), *(str(counts[status]) for counts in columns))
    table.add_row("completions", *(str(len(graded.items)) for _ in columns), style="dim")
    console.print(table)
    if differing := len(graded.differences):
        share = differing / len(graded.items)
        console.print(f"{differing:,} of {len(graded.items):,} get another reward ({share:.2%})")
    for item, by_mode in graded.differences[:_SHOWN]:
        statuses = ", ".join(
            f"{mode} {status_in_words(grade.status)}" for mode, grade in by_mode.items()
        )
        answer = next(iter(by_mode.values())).extracted
        shown = f"gold {str(item.gold)[:200]!r}, answer {str(answer)[:200]!r}"
        console.print(f"{unit} {item.line}, completion {item.index}: {statuses}; {escape(shown)}")
    if len(graded.differences) > _SHOWN:
        console.print(f"{len(graded.differences) - _SHOWN} more differences: --json lists them")
    unjudged = graded.unjudged
    for item, grade in unjudged[:_SHOWN]:
        shown = f"{unit} {item.line}, completion {item.index}: {grade.status}; {grade.reason}"
        console.print(escape(shown))
    if len(unjudged) > _SHOWN:
        console.print(f"{len(unjudged) - _SHOWN} more without a verdict: --json lists them")
    for line in graded.malformed:
        console.print(f"[yellow]line {line.line} is left out[/]: {escape(line.why)}")
