"""`sage data list|show|overlap|probe`: sources, repeated and remembered questions."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live, doing
from sage_cli.cli.printing import show_report
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError
from sage_cli.problems.listed_sources import list_sources
from sage_cli.problems.load import load_problems, read_problems
from sage_cli.problems.misprints import known_misprints
from sage_cli.problems.overlap import duplicates, find_overlap

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.problems.problem import Problem

_SHOWN = 160
"""Characters of a question in the table of pairs, and of a worked solution's end."""
REVISION_SHOWN = 10
"""Characters of a commit in the list of sources."""

app = new_app("List data sets, show their problems, and look for overlaps or memorised problems.")

Root = Annotated[
    Path | None,
    typer.Option("--root", help="Folder with local copies of data sets (default: $SAGE_DATA)."),
]


@app.command("list", epilog="Example: sage data list")
def list_(
    preset: options.Presets = None,
    set_: options.Sets = None,
    root: Root = None,
    json: options.Json = False,
) -> None:
    """List the registered data sets and where they are."""
    with doing("reading local copies"):
        sources = list_sources(_configured(preset, set_, root).data)
    if json:
        emit({"sources": sources})
        return
    table = _table("name", ">problems", ">expected", ">repeated", "where", "revision", "use")
    for source in sources:
        counts = [source["problems"], source["expected"], source["repeated"]]
        numbers = ["" if count is None else str(count) for count in counts]
        revision = (source["revision"] or "")[:REVISION_SHOWN]
        table.add_row(source["name"], *numbers, source["where"], revision, source["use"])
    console.print(table)
    for source in sources:
        if source["trouble"]:
            console.print(f"[red]{source['name']}[/]: {escape(source['trouble'])}")


@app.command(epilog="Example: sage data show train.jsonl --gold-field answer")
def show(
    name: Annotated[
        str, typer.Argument(help="Name of a data set, or a JSONL, CSV or Parquet file.")
    ],
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of problems to show.")] = 5,
    preset: options.Presets = None,
    set_: options.Sets = None,
    root: Root = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    json: options.Json = False,
) -> None:
    """Show a data set's size, columns and first problems."""
    from sage_cli.evaluation.benchmarks import find_trouble

    config = _configured(preset, set_, root, question_field, gold_field)
    with doing(f"reading {name}"):
        problems = read_problems(name, config.data, config.evaluation.fields)
        repeated = [[problem.id for problem in group] for group in duplicates(problems)]
        trouble = find_trouble(name, problems, config.grading.judge)
    misprints = known_misprints(problems)
    columns = sorted({column for problem in problems for column in problem.meta} - {"origin"})
    origins = list(dict.fromkeys(str(p.meta.get("origin", "generated")) for p in problems))
    if json:
        emit(
            {
                "name": name,
                "problems": len(problems),
                "columns": columns,
                "origins": origins,
                "repeated": repeated,
                "misprints": [
                    {"problem": problem.id, "name": m.name, "wrong": m.wrong, "source": m.source}
                    for problem, m in misprints
                ],
                "first": list(map(_shown, problems[:limit])),
                "trouble": trouble,
            }
        )
        return
    console.print(f"[bold]{escape(name)}[/]: {counted(len(problems), 'problem')} from")
    for origin in origins:
        console.print(f"  {escape(origin)}")
    console.print(f"other columns: {escape(', '.join(columns) or 'none')}")
    if repeated:
        console.print(f"[yellow]questions that occur more than once: {len(repeated)}[/]")
    for problem, misprint in misprints:
        console.print(
            f"[yellow]known misprint:[/] {misprint.name} ({problem.id}): {misprint.wrong} "
            f"[dim]({escape(misprint.source)})[/]"
        )
    for problem in problems[:limit]:
        console.print(f"\n[dim]{problem.id}[/]\n{escape(problem.question)}")
        if problem.gold_text is not None:
            end = problem.gold_text[-_SHOWN:].strip()
            console.print(f"[dim]{'… ' * (len(end) < len(problem.gold_text))}{escape(end)}[/]")
        console.print(f"[green]{escape(problem.gold)}[/]")
    if trouble:
        console.print(f"\n[yellow]{escape(trouble)}[/]", soft_wrap=True)


def _shown(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON, without the columns that its texts were read from."""
    shown = {field.name: getattr(problem, field.name) for field in fields(problem)}
    del shown["own"]
    return shown


@app.command(epilog="Example: sage data overlap openmathreasoning-mini aime24")
def overlap(
    train: Annotated[str, typer.Argument(help="Data set that is trained on.")],
    bench: Annotated[str, typer.Argument(help="Benchmark to search for overlaps.")],
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of pairs to show.")] = 10,
    preset: options.Presets = None,
    set_: options.Sets = None,
    root: Root = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    json: options.Json = False,
) -> None:
    """Find benchmark problems that the training problems contain."""
    config = _configured(preset, set_, root, question_field, gold_field)
    with doing(f"comparing {train} with {bench}"):
        trained, asked = (
            load_problems(name, config.data, config.evaluation.fields) for name in (train, bench)
        )
        matches = find_overlap(trained, asked)
    same = {match.bench.id for match in matches if match.same}
    similar = {match.bench.id for match in matches} - same
    counts = {
        "train_problems": len(trained),
        "bench_problems": len(asked),
        "same": len(same),
        "similar": len(similar),
    }
    if json:
        emit({"train": train, "bench": bench, **counts, "matches": matches})
        return
    console.print(
        f"{len(same)} of the {len(asked):,} problems in {escape(bench)} are also among the "
        f"{len(trained):,} in {escape(train)}, and {len(similar)} others share 13 consecutive "
        "words with one of them"
    )
    table = _table(">shared", "benchmark", "training")
    for match in matches[:limit]:
        share = "same" if match.same else f"{match.share:.0%}"
        pair = (match.bench.question, match.train.question)
        table.add_row(share, *(escape(shorten(question, _SHOWN)) for question in pair))
    if matches[:limit]:
        console.print(table)
        if len(matches) > limit:
            console.print(f"{len(matches) - limit} more pairs: --limit or --json shows them")


@app.command(epilog="Example: sage data probe Qwen/Qwen2.5-Math-7B math500")
def probe(
    model: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    bench: Annotated[str, typer.Argument(help="Benchmark: a name, or a file of problems.")],
    limit: options.Limit = None,
    preset: options.Presets = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Test whether a model has memorised a benchmark, by letting it continue its questions."""
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.probe import FIXED, probe
    from sage_cli.models.policy import named_policy
    from sage_cli.store.run import Runs

    for key in (typed.partition("=")[0].strip() for typed in set_ or ()):
        if key in FIXED:
            raise ConfigurationError(
                f"{key} has no effect: a probe always uses {FIXED[key]}", "leave it out"
            )
    sets = [*(set_ or ()), *(f"{key}={value}" for key, value in FIXED.items())]
    flags = {"benchmark": bench, "limit": limit}
    settings = options.load_for_measuring(
        [model], preset, None, sets, runs, "passk", evaluation=flags
    )
    policy = named_policy(model, Runs(settings.run.root), settings.model)
    with Live() as live:
        with live.doing(f"reading {bench}"):
            (benchmark, *more) = Evaluation(settings).benchmarks
        if more:
            raise ConfigurationError(f"{bench} names several benchmarks", "probe one at a time")
        report = probe(policy, benchmark, settings, live)
    show_report(report, json)


def _configured(
    preset: list[str] | None,
    set_: list[str] | None,
    root: Path | None,
    question: str | None = None,
    gold: str | None = None,
) -> SageConfig:
    fields = {"question": question, "gold": gold}
    here = {"root": root and str(root)}
    return options.load_config(preset, None, set_, "data", data=here, evaluation={"fields": fields})


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column[0] == ">" else "left"
        table.add_column(column.lstrip(">"), justify=justify, no_wrap=column == "name")
    return table
