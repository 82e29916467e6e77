"""W&B's run for a whole sweep, made from its report whenever a driver ends."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.mirrors.wandb_mirror import available_mode, begin, staging_in

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepPicture:
    """A sweep as W&B shows it.

    `config` is the search space and its settings; `trials` are a table's rows by column; `pictures`
    are PNG files by name; `summary` has the best trial's values and settings.
    """

    config: Mapping[str, Any]
    trials: Sequence[Mapping[str, Any]]
    pictures: Mapping[str, Path]
    summary: Mapping[str, Any]


def mirror_sweep(folder: Path, picture: SweepPicture, tracking: TrackingSection) -> None:
    """Show the sweep of `folder` in W&B, in one group with its trials' runs, unless W&B is off.

    Offline it replaces an earlier one in `folder`/wandb. A failure of W&B is one warning: the sweep
    itself is not affected.
    """
    if tracking.wandb == "off":
        return
    try:
        _show(folder, picture, tracking)
    except Exception as error:  # W&B's errors have no class of their own
        log.warning(
            "W&B does not show the sweep %s: %s; sweep.json is complete", folder.name, error
        )


def _show(folder: Path, picture: SweepPicture, tracking: TrackingSection) -> None:
    import wandb

    mode = available_mode(tracking.wandb, folder.name)
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
    columns = list(dict.fromkeys(name for row in picture.trials for name in row))
    rows = [[row.get(name) for name in columns] for row in picture.trials]
    values: dict[str, Any] = {"trials": wandb.Table(columns=columns, data=rows)}
    values |= {name: wandb.Image(str(path)) for name, path in picture.pictures.items()}
    with staging_in(folder / "wandb"):
        shown.log(values)
    shown.summary.update(dict(picture.summary))
    shown.finish()
