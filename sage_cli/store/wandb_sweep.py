"""W&B's run for a whole sweep, made anew from its report each time a driver ends."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.records import TrackingSection
from sage_cli.store.wandb_session import begin, chosen_mode, staging_in

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepPicture:
    """What W&B is to show of a sweep.

    `config` says what was searched and how; `cells` are a table's rows by column; `pictures` are
    PNG files by name; `summary` has the best cell's values and settings.
    """

    config: Mapping[str, Any]
    cells: Sequence[Mapping[str, Any]]
    pictures: Mapping[str, Path]
    summary: Mapping[str, Any]


def mirror_sweep(folder: Path, picture: SweepPicture, tracking: TrackingSection) -> None:
    """Show the sweep of `folder` in W&B, in one group with its cells' runs; nothing where it's off.

    Offline it lies in `folder`/wandb, in the place of an earlier one. Whatever W&B does, the sweep
    stays as it is: a failure is one warning.
    """
    if tracking.wandb == "off":
        return
    try:
        _show(folder, picture, tracking)
    except Exception as error:  # W&B's failures have no class of their own
        log.warning("W&B doesn't show the sweep %s: %s; sweep.json is whole", folder.name, error)


def _show(folder: Path, picture: SweepPicture, tracking: TrackingSection) -> None:
    import wandb

    mode = chosen_mode(tracking.wandb, folder.name)
    if mode == "offline":
        shutil.rmtree(folder / "wandb", ignore_errors=True)
    shown = begin(
        folder,
        folder.name,
        picture.config,
        project=tracking.project,
        group=folder.name,
        job_type="sweep",
        mode=mode,
        resume="allow" if mode == "online" else None,
    )
    columns = list(dict.fromkeys(name for row in picture.cells for name in row))
    rows = [[row.get(name) for name in columns] for row in picture.cells]
    values: dict[str, Any] = {"cells": wandb.Table(columns=columns, data=rows)}
    values |= {name: wandb.Image(str(path)) for name, path in picture.pictures.items()}
    with staging_in(folder / "wandb"):
        shown.log(values)
    shown.summary.update(dict(picture.summary))
    shown.finish()
