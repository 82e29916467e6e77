"""W&B as a mirror of a run."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sage_cli.config.consent import without_services
from sage_cli.store.run import Run

log = logging.getLogger(__name__)
COLUMNS = ("step", "prompt", "completion", "gold", "grade", "reward")


class WandbMirror:
    """One W&B run per run, under its id, with its configuration, group and kind.

    `offline`: one directory below `runs/<id>/wandb/` has everything, and `wandb sync` uploads it. A
    finished one cannot be reopened, so opening replaces it. `online`: W&B's run is resumed without
    sending its steps again; it is asked to forget steps that a crash lost and that are trained
    again.
    """

    name = "W&B"

    def __init__(self, run: Run, mode: str) -> None:
        self._run, self._mode = run, mode
        self._wandb: Any = None

    def open(self, trained_from: int | None) -> None:
        """Start W&B's run; online without a key becomes offline."""
        mode = available_mode(self._mode, self._run.id)
        if mode == "offline":
            shutil.rmtree(self._run.folder / "wandb", ignore_errors=True)
            self._wandb = self._started("offline", resume=None)
            return
        self._wandb = self._started("online", resume="allow")
        if trained_from is not None and self._wandb.starting_step > trained_from:
            self._forget(trained_from)

    def _forget(self, first: int) -> None:
        """Remove steps from `first` on in W&B's run (a beta), or warn that it keeps them."""
        last = self._wandb.starting_step - 1
        self._wandb.finish()
        try:
            self._wandb = self._started("online", resume_from=f"{self._run.id}?_step={first - 1}")
        except Exception as error:  # W&B's errors have no class of their own
            log.warning(
                "W&B keeps its values of steps %d to %d of %s, which are trained again (%s); "
                "metrics.jsonl has the new ones",
                first,
                last,
                self._run.id,
                error,
            )
            self._wandb = self._started("online", resume="allow")

    def _started(self, mode: Literal["online", "offline"], **arguments: Any) -> Any:
        """Start W&B's run; `arguments` are further ones of `wandb.init`."""
        config = self._run.config
        return begin(
            self._run.folder,
            self._run.id,
            without_services(config),
            project=config["tracking"]["project"],
            group=config["tracking"]["group"],
            job_type=self._run.manifest["kind"],
            mode=mode,
            **arguments,
        )

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics, and the completions as a table, at W&B's step of the same number."""
        import wandb

        step = int(record["step"])
        if step < self._wandb.starting_step:
            return
        values = {key: value for key, value in record.items() if key != "step"}
        if rollouts:
            rows = [[row[column] for column in COLUMNS] for row in rollouts]
            values["rollouts"] = wandb.Table(columns=list(COLUMNS), data=rows)
        with staging_in(self._run.folder / "wandb"):
            self._wandb.log(values, step=step)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures in the run's summary."""
        self._wandb.summary.update(dict(figures))

    def close(self) -> None:
        """Finish W&B's run."""
        self._wandb.finish()


def available_mode(mode: str, id_: str) -> Literal["online", "offline"]:
    """Return `mode`; online without a key becomes offline, since W&B would prompt for one."""
    if mode == "online" and has_key():
        return "online"
    if mode == "online":
        log.warning("W&B has no key: %s is mirrored offline (`wandb login`)", id_)
    return "offline"


def has_key() -> bool:
    """Return True if W&B has a key, in its variable or in the user's file; without a prompt."""
    import wandb

    return bool(wandb.login(prompt=False, verify=False))


def begin(folder: Path, id_: str, config: Mapping[str, Any], **arguments: Any) -> Any:
    """Start W&B's run called `id_` in `folder`; `arguments` are further ones of `wandb.init`."""
    import wandb

    return wandb.init(
        dir=str(folder),
        id=id_,
        name=id_,
        config=dict(config),
        **arguments,
        reinit="finish_previous",  # else a run that was given up is reused
        settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
    )


@contextmanager
def staging_in(folder: Path) -> Iterator[None]:
    """Let W&B stage its tables in `folder`, not at home, unless the user chose a folder."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        del os.environ[name]
