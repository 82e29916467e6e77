"""`sage data list|show|overlap`: sources, their problems, and repeated questions."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import completions
from sage_cli.cli.console import console, emit
from sage_cli.cli.group import new_app
from sage_cli.cli.live import doing
from sage_cli.cli.options import Json, Presets, Sets, load_config

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig

SHOWN = 160
"""Characters of a question in the table of pairs."""
REVISION_SHOWN = 10
"""Characters of a commit in the list of sources."""

app = new_app("List data sets, show their problems, find the overlap of training and test.")

Root = Annotated[
    Path | None, typer.Option("--root", help="Folder of local copies (default: $SAGE_DATA).")
]
QuestionField = Annotated[
    str | None, typer.Option("--question-field", help="The column of questions in a file.")
]
GoldField = Annotated[
    str | None, typer.Option("--gold-field", help="The column of gold answers in a file.")
]


@app.command("list")
def list_(preset: Presets = None, set_: Sets = None, root: Root = None, json: Json = False) -> None:
    """List the registered sources of problems and where they are."""
    from sage_cli.commands.data import list_sources

    with doing("reading local copies"):
        sources = list_sources(_configured(preset, set_, root).data)
    if json:
        emit({"sources": sources})
        return
    table = _table("name", ">problems", ">expected", ">repeated", "where", "revision", "use")
    for source in sources:
        counts = (source.problems, source.expected, source.repeated)
        shown = ["" if count is None else str(count) for count in counts]
        revision = (source.revision or "")[:REVISION_SHOWN]
        table.add_row(source.name, *shown, source.where, revision, source.use)
    console.print(table)
    for source in sources:
        if source.trouble:
            console.print(f"[red]{source.name}[/]: {escape(source.trouble)}")


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A name, or a JSONL, CSV or Parquet file.", autocompletion=completions.benchmarks
        ),
    ],
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many problems.")] = 3,
    preset: Presets = None,
    set_: Sets = None,
    root: Root = None,
    question_field: QuestionField = None,
    gold_field: GoldField = None,
    json: Json = False,
) -> None:
    """Show a source's count, columns and first problems."""
    from sage_cli.commands.data import show_source

    config = _configured(preset, set_, root, question_field, gold_field)
    with doing(f"reading {name}"):
        source = show_source(name, config.data, config.evaluation.fields)
    repeated = [[problem.id for problem in group] for group in source.repeated]
    if json:
        answer = {
            "name": name,
            "problems": len(source.problems),
            "columns": list(source.columns),
            "origins": list(source.origins),
            "repeated": repeated,
            "first": list(source.problems[:limit]),
        }
        emit(answer)
        return
    console.print(f"[bold]{escape(name)}[/]: {len(source.problems)} problems from")
    for origin in source.origins:
        console.print(f"  {escape(origin)}")
    console.print(f"other columns: {escape(', '.join(source.columns) or 'none')}")
    if repeated:
        console.print(f"[yellow]questions that repeat: {len(repeated)}[/]")
    for problem in source.problems[:limit]:
        console.print(f"\n[dim]{problem.id}[/]\n{escape(problem.question)}")
        console.print(f"[green]{escape(problem.gold)}[/]")


@app.command()
def overlap(
    train: Annotated[
        str,
        typer.Argument(
            help="The source that is trained on.", autocompletion=completions.benchmarks
        ),
    ],
    bench: Annotated[
        str, typer.Argument(help="The benchmark.", autocompletion=completions.benchmarks)
    ],
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many pairs to show.")] = 10,
    preset: Presets = None,
    set_: Sets = None,
    root: Root = None,
    question_field: QuestionField = None,
    gold_field: GoldField = None,
    json: Json = False,
) -> None:
    """Find benchmark problems that the training problems contain."""
    from sage_cli.commands.data import compare_sources

    config = _configured(preset, set_, root, question_field, gold_field)
    with doing(f"comparing {train} with {bench}"):
        shared = compare_sources(train, bench, config.data, config.evaluation.fields)
    if json:
        emit({"train": train, "bench": bench, **vars(shared)})
        return
    console.print(
        f"of {shared.bench_problems} problems of {escape(bench)}, {shared.same} are among the "
        f"{shared.train_problems} of {escape(train)}, and {shared.similar} more share 13 words "
        "in a row with one"
    )
    table = _table(">shared", "benchmark", "training")
    for match in shared.matches[:limit]:
        share = "same" if match.same else f"{match.share:.0%}"
        pair = (match.bench.question, match.train.question)
        table.add_row(share, *(escape(shorten(question, SHOWN)) for question in pair))
    if shared.matches[:limit]:
        console.print(table)
        if len(shared.matches) > limit:
            console.print(f"{len(shared.matches) - limit} more pairs: --limit or --json shows them")


def _configured(
    preset: list[str] | None,
    set_: list[str] | None,
    root: Path | None,
    question: str | None = None,
    gold: str | None = None,
) -> SageConfig:
    fields = {"question": question, "gold": gold}
    here = {"root": root and str(root)}
    return load_config(preset, None, set_, data=here, evaluation={"fields": fields}).config


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column[0] == ">" else "left"
        table.add_column(column.lstrip(">"), justify=justify, no_wrap=column == "name")
    return table
