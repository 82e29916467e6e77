"""`sage runs archive` and `sage runs restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli.options import Json, RunName, RunRoot
from sage_cli.cli.terminal.console import console, emit

if TYPE_CHECKING:
    from sage_cli.cli.terminal.run_answers import RestoredAnswer


def archive(
    name: RunName,
    file: Annotated[Path, typer.Argument(help="The file to write, such as run.tar.gz.")],
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Pack a run and its ancestors for others to check: settings, records, samples, grades.

    Weights, checkpoints and mirrors are left out.
    """
    from sage_cli.cli.terminal.live import doing
    from sage_cli.commands.stored import archive as workflow
    from sage_cli.settings.sections.records import default_root

    root = runs or default_root()
    with doing(f"packing {name}"):
        archived = workflow.archive(root, name, file)
    if json:
        emit({"file": str(file), **vars(archived)})
        return
    size_mb = file.stat().st_size / 1e6
    console.print(
        f"[bold]{file}[/]: {', '.join(archived.runs)}; {len(archived.sample_sets)} sample sets, "
        f"{len(archived.files)} files, {size_mb:.1f} MB\ndigest {archived.digest}",
        soft_wrap=True,
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file from `sage runs archive`.")],
    digest: Annotated[
        str | None, typer.Option(help="The digest that the archive must have.")
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Unpack an archived run after every file in it is checked."""
    from sage_cli.cli.terminal.live import doing
    from sage_cli.commands.stored import archive as workflow
    from sage_cli.settings.sections.records import default_root

    with doing(f"checking {file}"):
        restored, new = workflow.restore(runs or default_root(), file, digest)
    if json:
        answer: RestoredAnswer = {
            "restored": new,
            "digest": restored.digest,
            "sample_sets": list(restored.sample_sets),
        }
        emit(answer)
        return
    console.print(f"restored {', '.join(new)}\ndigest {restored.digest}", soft_wrap=True)
