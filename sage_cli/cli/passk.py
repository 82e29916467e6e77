"""`sage passk`: pass@k curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)
from sage_cli.cli.plans import show_plan

if TYPE_CHECKING:
    from sage_cli.workflows.measure import Measured
    from sage_cli.workflows.passk import PasskResult


def command(
    names: Names = None,
    benchmark: Benchmark = None,
    k: Ks = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
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
    flags = evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
    settings = load_for_measuring(names or [], preset, config, set_, runs, evaluation=flags).config
    if dry_run:
        show_plan(settings, ("measure",), json)
        return
    from sage_cli.workflows.passk import as_json, passk

    with Live() as live:
        result = passk(settings, names or [], live)
    if json:
        emit(as_json(result, settings))
    else:
        show(result)


def show(result: PasskResult) -> None:
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
