"""`sage passk`: pass@k curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sage_cli.cli.console import console, emit, speak
from sage_cli.cli.live import Live
from sage_cli.cli.measuring import evaluation_flags, load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    DryRun,
    Json,
    Ks,
    Limit,
    Names,
    OtherTemplate,
    Presets,
    RunRoot,
    Samples,
    Seeds,
    Sets,
    load_config,
)
from sage_cli.cli.plans import show_plan

if TYPE_CHECKING:
    from sage_cli.evaluation.measurement import Measured
    from sage_cli.workflows.curves import Curves


def command(
    names: Names = None,
    benchmark: Benchmark = None,
    k: Ks = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Counts or samples of your own: JSON, JSONL or CSV."),
    ] = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure pass@k of runs or models; with none named, of the latest run."""
    speak(json)
    if from_:
        _show_files(from_, k, runs, set_, json)
        return
    flags = evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
    settings = load_for_measuring(names or [], preset, config, set_, runs, evaluation=flags).config
    if dry_run:
        show_plan(settings, ("measure",), json)
        return
    from sage_cli.workflows.curves import as_json
    from sage_cli.workflows.passk import passk

    with Live() as live:
        result = passk(settings, names or [], live)
    if json:
        emit(as_json(result, settings))
    else:
        show(result)


def _show_files(
    files: list[Path], k: str | None, runs: Path | None, sets: list[str] | None, json: bool
) -> None:
    """Curves of files of counts: only the settings of `evaluation` matter."""
    settings = load_config(None, None, sets, run={"root": runs}).config
    from sage_cli.workflows.curves import as_json, curves_of_files

    result = curves_of_files(settings, files, k)
    if json:
        emit(as_json(result, settings))
    else:
        show(result)


def show(result: Curves) -> None:
    """A table of pass@k at the powers of two with intervals, the verdicts, and the files."""
    shown = [k for k in result.ks if k & (k - 1) == 0] or list(result.ks)
    for benchmark, lines in result.lines.items():
        table = Table("k", *(line.policy for line in lines), title=f"pass@k, {benchmark}")
        for k in shown:
            values = (line.curve.at(k) for line in lines)
            cells = (f"{mean:.3f} [dim]{low:.3f} to {high:.3f}[/]" for mean, low, high in values)
            table.add_row(str(k), *cells)
        console.print(table)
        for line in lines:
            for one in line.measured:
                console.print(f"[dim]{line.policy}, seed {one.seed}: {verdicts(one)}[/]")
    console.print(f"files: [bold]{result.folder}[/]")


def verdicts(measured: Measured) -> str:
    """`40 right, 8 wrong; 2 cut off`."""
    counted = ", ".join(f"{count} {status}" for status, count in measured.statuses.items())
    return counted + (f"; {measured.truncated} cut off" if measured.truncated else "")
