"""`sage init`: begin a study of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli.console import console, emit
from sage_cli.cli.options import Json
from sage_cli.errors import ConfigurationError


def command(
    folder: Annotated[
        Path, typer.Argument(help="Folder to create; it must not exist yet, or be empty.")
    ],
    json: Json = False,
) -> None:
    """Create a small study with a preset, problems, a suite, and a README with its commands."""
    from sage_cli.settings.presets import shipped
    from sage_cli.store.files import write_text

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "isn't empty" if folder.is_dir() else "is a file"
        raise ConfigurationError(
            f"{folder} {what}",
            "choose a folder that does not exist yet, for example `sage init my-study`",
        )
    template, written = shipped("templates") / "study", []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        written.append(folder / source.relative_to(template))
        write_text(written[-1], source.read_text(encoding="utf-8"))
    if json:
        emit({"folder": str(folder), "written": [str(file) for file in written]})
        return
    for file in written:
        console.print(f"wrote {file}", soft_wrap=True)
    console.print(
        f"\ncd {folder}\nsage rl -p tiny -p preset.yaml --algo dapo --guide branch", soft_wrap=True
    )
