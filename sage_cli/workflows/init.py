"""`sage init`: a folder of one's own to begin from."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.presets import shipped
from sage_cli.errors import ConfigurationError
from sage_cli.store.atomic import write_text

TEMPLATE = "study"


def init(folder: Path) -> list[Path]:
    """Put a preset, a suite, problems and a README into `folder`; returns what was written.

    Raises ConfigurationError where `folder` is a file or holds anything.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "isn't empty" if folder.is_dir() else "is a file"
        raise ConfigurationError(f"{folder} {what}", "name a new folder, as `sage init my-study`")
    template = shipped("templates") / TEMPLATE
    written = []
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        place = folder / source.relative_to(template)
        write_text(place, source.read_text(encoding="utf-8"))
        written.append(place)
    return written
