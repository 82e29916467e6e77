"""`sage export`: a run's policy as an ordinary model folder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli import completions
from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.cli.options import Json, RunRoot


class Dtype(StrEnum):
    """The type of the written weights."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def command(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, RUN@step, a model folder or ORG/MODEL of the Hub.",
            autocompletion=completions.runs,
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the model goes.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the model in DIR.")] = False,
    dtype: Annotated[
        Dtype, typer.Option(help="Type of the written weights; auto: as they are stored.")
    ] = Dtype.AUTO,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="model.revision, model.trust_remote_code or the run's grading.judge, as "
            "section.key=value; repeatable.",
        ),
    ] = None,
    lm_eval: Annotated[
        bool, typer.Option("--lm-eval", help="Write a task of lm-eval into DIR, too.")
    ] = False,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", "-b", help="Of the card and the task (default: the run's)."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--push", help="Then upload DIR to the Hub as ORG/MODEL, private if new."),
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Merge a run's adapter and write a Hugging Face folder that vLLM serves, with a model card."""
    from sage_cli.commands.stored.export import export, push, require_hub_name
    from sage_cli.settings.sections.records import default_root

    root = runs or default_root()
    if to is not None:
        require_hub_name(to)
    with Live() as live:
        exported = export(
            run, folder, root, live,
            force=force, dtype=dtype, sets=set_ or (), lm_eval=lm_eval, benchmark=benchmark,
        )  # fmt: skip
        address = push(folder, to, live) if to is not None else None
    if json:
        emit({"folder": str(folder), "address": address, **vars(exported)})
        return
    how = "adapter merged" if exported.merged else "no adapter to merge"
    console.print(f"exported {exported.source} ({exported.dtype}, {how}): [bold]{folder}[/]")
    if address is not None:
        console.print(f"uploaded: {address}")
