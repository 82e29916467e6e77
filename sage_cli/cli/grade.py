"""`sage grade`: the grades of a file of golds and completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import options
from sage_cli.cli.console import Live, console, emit
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.logs.registry import program_titles
from sage_cli.json_value import json_value
from sage_cli.progress import Progress
from sage_cli.settings.judge_names import BUILT_IN_JUDGES, Extraction, GradingMode

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.evaluation.logs.log import Log, ReadOptions
    from sage_cli.grading.grades import Grade

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
    score: options.Scores = None,
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
    from sage_cli.settings.judge_names import MODES

    typed = {"extract": extract, "mode": None if mode == "both" else mode, "judge": judge}
    flags = {"grading": {name: value for name, value in typed.items() if value}}
    if len(score or ()) > 1:
        raise ConfigurationError("--score names several scores for one file", "type it once")
    named = next(iter(score or ()), None)
    log = _log(file, options.file_reading(fields, golds, drop_invalidated, named))
    if log is not None:
        flags["grading"] = {**grading_settings(log), "judge": "math", **flags["grading"]}
    config = options.load_config(preset, None, set_, "grade", run={"root": runs}, **flags)
    modes = MODES if mode == "both" else (config.grading.mode,)
    if judge_of(config) == "math" and config.grading.extract == "text" and mode == "both":
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
        emit({**_answer(file, judge_of(config), graded), **told})
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


def judge_of(config: SageConfig) -> str:
    """Return the judge of a file's answers."""
    return config.grading.judge or "math"


def _log(path: Path, reading: ReadOptions) -> Log | None:
    """Return the samples of another program's file; None for rows of one's own without verdicts."""
    from sage_cli.evaluation.logs.registry import detect_program, read_log

    is_jsonl = path.suffix not in (".eval", ".parquet") and not reading.fields
    try:
        is_jsonl = is_jsonl and detect_program(path).name == "jsonl"
        log = read_log(path, reading)
    except DataError:
        if not is_jsonl:
            raise
        return None
    return log if log.program != "jsonl" or log.has_verdicts else None


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
    from sage_cli.grading.grades import in_words

    table = Table("status", box=None, padding=(0, 2, 0, 0))
    for mode in graded.grades:
        table.add_column(mode, justify="right")
    columns = [graded.counts(mode) for mode in graded.grades]
    for status in columns[0]:
        table.add_row(in_words(status), *(str(counts[status]) for counts in columns))
    table.add_row("completions", *(str(len(graded.items)) for _ in columns), style="dim")
    console.print(table)
    if differing := len(graded.differences):
        share = differing / len(graded.items)
        console.print(f"{differing:,} of {len(graded.items):,} get another reward ({share:.2%})")
    for item, by_mode in graded.differences[:_SHOWN]:
        statuses = ", ".join(f"{mode} {in_words(grade.status)}" for mode, grade in by_mode.items())
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


_AT_ONCE = 1024


@dataclass(frozen=True)
class Item:
    """A completion with its line and its index among the line's completions."""

    line: int
    index: int
    gold: object
    completion: object
    question: str | None = None


@dataclass(frozen=True)
class Malformed:
    """A line that is not graded, and why."""

    line: int
    why: str


@dataclass(frozen=True)
class GradedFile:
    """The items of a file, each mode's grades in the same order, and the malformed lines."""

    items: list[Item]
    grades: dict[str, list[Grade]]
    malformed: list[Malformed]

    def counts(self, mode: str) -> dict[str, int]:
        """Return the number of completions with each status."""
        from sage_cli.grading.grades import STATUSES

        counts = Counter(grade.status for grade in self.grades[mode])
        return {status: counts[status] for status in STATUSES}

    @property
    def unjudged(self) -> list[tuple[Item, Grade]]:
        """The items that are neither right nor wrong, errors first, each with why it is not."""
        pairs = zip(self.items, next(iter(self.grades.values())), strict=True)
        without = [(item, grade) for item, grade in pairs if grade.reason]
        return sorted(without, key=lambda pair: pair[1].status)

    @property
    def differences(self) -> list[tuple[Item, dict[str, Grade]]]:
        """The items that are right in one mode and not in another."""
        pairs = [
            (item, {mode: grades[number] for mode, grades in self.grades.items()})
            for number, item in enumerate(self.items)
        ]
        return [
            (item, by_mode)
            for item, by_mode in pairs
            if len({grade.status == "right" for grade in by_mode.values()}) > 1
        ]


def grade_file(
    path: Path, config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> GradedFile:
    """Grade the rows {gold, completion} or {gold, completions} of a JSONL file in each mode.

    Raises DataError if the file cannot be read or has no row that can be graded.
    """
    items: list[Item] = []
    malformed: list[Malformed] = []
    for row in _read(path):
        (items if isinstance(row, Item) else malformed).append(row)  # type: ignore[arg-type]
    if not items:
        why = f"; line {malformed[0].line}: {malformed[0].why}" if malformed else ""
        raise DataError(
            f"{path} has no rows to grade{why}",
            'each line must be a JSON object such as {"gold": "27", "completion": "..."}',
        )
    return GradedFile(items, _graded(items, config, modes, progress), malformed)


def grade_log(
    log: Log, path: Path, config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> GradedFile:
    """Grade another program's samples by a judge of ours, beside the verdicts that came with them.

    Raises DataError if the file has no golds or no completions.
    """
    from sage_cli.grading.grades import Grade
    from sage_cli.settings.judge_names import IMPORTED_JUDGE

    if not log.has_golds or any(sample.text is None for sample in log.samples):
        raise DataError(
            f"{path} has no reference answers or no completions, so that no judge can compare them",
            f"`sage passk {path}` counts the verdicts that came with it",
        )
    items = [
        Item(number, 0, sample.gold, sample.text, sample.question)
        for number, sample in enumerate(log.samples, 1)
    ]
    grades = _graded(items, config, modes, progress)
    if log.has_verdicts:
        grades[IMPORTED_JUDGE] = [
            Grade("right" if sample.correct else "wrong", sample.extracted)
            for sample in log.samples
        ]
    return GradedFile(items, grades, [])


def _graded(
    items: Sequence[Item], config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> dict[str, list[Grade]]:
    """Return each mode's grades of the items."""
    from sage_cli.evaluation.benchmarks import grader_of

    config.grading.require_judge()
    grades: dict[str, list[Grade]] = {}
    for mode in modes:
        progress.begin(f"grading ({mode})", len(items), "completions")
        chosen = config.grading.model_copy(update={"mode": mode})
        with grader_of(judge_of(config), None, chosen, config.prompt) as grader:
            grades[mode] = []
            for start in range(0, len(items), _AT_ONCE):
                part = items[start : start + _AT_ONCE]
                grades[mode] += grader.grade_many(
                    [(item.gold, item.completion) for item in part],
                    [item.question for item in part],
                )
                progress.advance(len(part))
        progress.end()
    return grades


def _read(path: Path) -> Iterator[Item | Malformed]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from _row(number, line)


def _row(number: int, line: bytes) -> Iterator[Item | Malformed]:
    try:
        row: Any = json_value(line)
    except ValueError as error:
        yield Malformed(number, f"not JSON: {str(error)[:200]}")
        return
    question = row.get("question") if isinstance(row, dict) else None
    question = question if isinstance(question, str) else None
    if not isinstance(row, dict):
        yield Malformed(number, "not an object")
    elif "gold" not in row:
        yield Malformed(number, "no field 'gold'")
    elif isinstance(row.get("completions"), list):
        for index, completion in enumerate(row["completions"]):
            yield Item(number, index, row["gold"], completion, question)
    elif "completion" in row:
        yield Item(number, 0, row["gold"], row["completion"], question)
    else:
        yield Malformed(number, "no field 'completion', and no list 'completions'")
