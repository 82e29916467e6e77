"""`sage runs archive` and `sage runs restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json, RunName, RunRoot

if TYPE_CHECKING:
    from sage_cli.cli.answers import RestoredAnswer


def archive(
    name: RunName,
    file: Annotated[Path, typer.Argument(help="What to write, as run.tar.gz.")],
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Pack a run and its parents for others to check: settings, records, samples, verdicts.

    Weights, checkpoints and mirrors are left out.
    """
    from sage_cli.cli.live import doing
    from sage_cli.config.records import default_root
    from sage_cli.workflows import archive as workflow

    root = runs or default_root()
    with doing(f"packing {name}"):
        held = workflow.archive(root, name, file)
    if json:
        emit({"file": str(file), **vars(held)})
        return
    size_mb = file.stat().st_size / 1e6
    console.print(
        f"[bold]{file}[/]: {', '.join(held.runs)}; {len(held.sample_sets)} sample sets, "
        f"{len(held.files)} files, {size_mb:.1f} MB\ndigest {held.digest}",
        soft_wrap=True,
    )


def restore(
    file: Annotated[Path, typer.Argument(help="What `sage runs archive` wrote.")],
    digest: Annotated[
        str | None, typer.Option("--digest", help="The digest that the archive must have.")
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Unpack an archived run, once every file in it is found to be what was archived."""
    from sage_cli.cli.live import doing
    from sage_cli.config.records import default_root
    from sage_cli.workflows import archive as workflow

    with doing(f"checking {file}"):
        held, new = workflow.restore(runs or default_root(), file, digest)
    if json:
        answer: RestoredAnswer = {
            "restored": new, "digest": held.digest, "sample_sets": list(held.sample_sets)
        }  # fmt: skip
        emit(answer)
        return
    console.print(f"restored {', '.join(new)}\ndigest {held.digest}", soft_wrap=True)
