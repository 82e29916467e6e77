"""`sage grade`: the grades of a file of golds and completions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.cli.measure.measuring import load_for_measuring
from sage_cli.cli.options import Json, Presets, RunRoot, Sets, load_config
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.settings.sections.judging import BUILT_IN_JUDGES, MODES, Extraction, GradingMode

if TYPE_CHECKING:
    from sage_cli.commands.measure.grade import GradedFile
    from sage_cli.store.runs.run import Run

_SHOWN = 20
_EXTRACT = "Where a completion's answer is (default: grading.extract, or the prompt's)."
_JUDGES = (
    f"{', '.join(BUILT_IN_JUDGES)}, one that a package registers, or file.py:function "
    "(default: grading.judge, or math)."
)


Mode = Literal[GradingMode, "both"]


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSONL: gold, and completion or completions; or imported samples' name."
        ),
    ],
    training: Annotated[
        bool, typer.Option("--training", help="Grade again what this run's training sampled.")
    ] = False,
    mode: Annotated[
        Mode | None, typer.Option(help="How answers are judged (default: grading.mode).")
    ] = None,
    boxed: Annotated[bool, typer.Option("--boxed", help="The same as --extract boxed.")] = False,
    extract: Annotated[Extraction | None, typer.Option(help=_EXTRACT)] = None,
    judge: Annotated[str | None, typer.Option(help=_JUDGES)] = None,
    preset: Presets = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Grade a file; --mode both shows where the strict judge and plain Math-Verify differ.

    With --training: how often would this judge have paid otherwise than the one that trained RUN?
    """
    from sage_cli.commands.measure.grade import grade_file, grade_training
    from sage_cli.store.runs.run import Runs

    typed = {
        "extract": extract or ("boxed" if boxed else None),
        "mode": None if mode == "both" else mode,
        "judge": judge,
    }
    flags = {"grading": {name: value for name, value in typed.items() if value}}
    config = load_config(preset, None, set_, run={"root": runs}, **flags).config
    judge = config.grading.judge or "math"
    if training:
        if mode == "both":
            raise ConfigurationError("--training takes one mode", "type --mode strict")
        run = Runs(config.run.root).find(str(file))
        with Live() as progress:
            graded = grade_training(run, config.grading, config.prompt, judge, progress)
        _answered(Path(run.id), judge, graded, "step", json=json)
        return
    if not file.is_file() and (imported := _imported(file, config.run.root)):
        _grade_imported(imported, mode, flags["grading"], preset, set_, runs, json=json)
        return
    modes = MODES if mode == "both" else (config.grading.mode,)
    with Live() as progress:
        graded = grade_file(file, config.grading, config.prompt, modes, judge, progress)
    _answered(file, judge, graded, "line", json=json)


def _imported(name: Path, root: Path) -> Run | None:
    """Return the run of imported samples called `name`; None if there is none."""
    from sage_cli.store.runs.run import Runs

    try:
        run = Runs(root).find(str(name))
    except StoreError:
        return None
    return run if run.manifest.get("kind") == "imported" else None


def _grade_imported(
    run: Run,
    mode: Mode | None,
    flags: dict[str, Any],
    preset: list[str] | None,
    sets: list[str] | None,
    runs: Path | None,
    *,
    json: bool,
) -> None:
    """Grade imported samples, with the answers where the import found them."""
    from sage_cli.commands.measure.grade import grade_imported

    flags = {"judge": "math", **flags}  # its own is the verdicts, beside which this is shown
    config = load_for_measuring([str(run.folder)], preset, None, sets, runs, grading=flags).config
    modes = MODES if mode == "both" else (config.grading.mode,)
    judge = config.grading.judge or "math"
    with Live() as progress:
        graded = grade_imported(run, config, modes, judge, progress)
    _answered(Path(run.id), judge, graded, "problem", json=json)


def _answered(file: Path, judge: str, graded: GradedFile, place: str, *, json: bool) -> None:
    if json:
        emit(_answer(file, judge, graded))
    else:
        _show(graded, place)


def _answer(file: Path, judge: str, graded: GradedFile) -> dict[str, Any]:
    rows: list[Any] = [
        {"line": item.line, "index": item.index}
        | {mode: grades[number].status for mode, grades in graded.grades.items()}
        | {"extracted": _encodable(next(iter(graded.grades.values()))[number].extracted)}
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


def _show(graded: GradedFile, place: str) -> None:
    """Print counts and differences; `place` is what an item's line is."""
    table = Table("status", box=None, padding=(0, 2, 0, 0))
    for mode in graded.grades:
        table.add_column(mode, justify="right")
    columns = [graded.counts(mode) for mode in graded.grades]
    for status in columns[0]:
        table.add_row(status, *(str(counts[status]) for counts in columns))
    table.add_row("completions", *(str(len(graded.items)) for _ in columns), style="dim")
    console.print(table)
    if differing := len(graded.differences):
        share = differing / len(graded.items)
        console.print(f"{differing:,} of {len(graded.items):,} are paid otherwise ({share:.2%})")
    for item, by_mode in graded.differences[:_SHOWN]:
        statuses = ", ".join(f"{mode} {grade.status}" for mode, grade in by_mode.items())
        answer = next(iter(by_mode.values())).extracted
        shown = f"gold {str(item.gold)[:200]!r}, answer {str(answer)[:200]!r}"
        console.print(f"{place} {item.line}, completion {item.index}: {statuses}; {escape(shown)}")
    if len(graded.differences) > _SHOWN:
        console.print(f"{len(graded.differences) - _SHOWN} more differences: --json lists them")
    for line in graded.malformed:
        console.print(f"[yellow]line {line.line} is left out[/]: {escape(line.why)}")
