"""W&B as a mirror of a run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sage_cli.config.stored import without_services
from sage_cli.store.run import Run
from sage_cli.store.wandb_session import begin, chosen_mode, staging_in

log = logging.getLogger(__name__)
COLUMNS = ("step", "prompt", "completion", "gold", "verdict", "reward")


class WandbMirror:
    """One W&B run per run, under its id, with its configuration, group and kind.

    `offline`: everything lies in one directory below `runs/<id>/wandb/`, which `wandb sync`
    uploads. A finished one can't be opened again, so that opening makes it anew. `online`: W&B's
    run is resumed, and the steps that it holds aren't sent again; those that were lost in a crash
    and are trained anew it is asked to forget.
    """

    name = "W&B"

    def __init__(self, run: Run, mode: str) -> None:
        self._run, self._mode = run, mode
        self._wandb: Any = None

    def open(self, trained_from: int | None) -> None:
        """Start W&B's run; online without a key becomes offline."""
        mode = chosen_mode(self._mode, self._run.id)
        if mode == "offline":
            shutil.rmtree(self._run.folder / "wandb", ignore_errors=True)
            self._wandb = self._started("offline", resume=None)
            return
        self._wandb = self._started("online", resume="allow")
        if trained_from is not None and self._wandb.starting_step > trained_from:
            self._forget(trained_from)

    def _forget(self, first: int) -> None:
        """Cut W&B's run off before step `first`, which W&B offers as a beta; else say it can't."""
        held = self._wandb.starting_step - 1
        self._wandb.finish()
        try:
            self._wandb = self._started("online", resume_from=f"{self._run.id}?_step={first - 1}")
        except Exception as error:  # W&B's refusals have no class of their own
            log.warning(
                "W&B keeps its own values of steps %d to %d of %s, which are trained anew (%s); "
                "metrics.jsonl holds the new ones",
                first, held, self._run.id, error,
            )  # fmt: skip
            self._wandb = self._started("online", resume="allow")

    def _started(self, mode: Literal["online", "offline"], **words: Any) -> Any:
        """W&B's run, by what `words` add for `wandb.init`."""
        config = self._run.config
        return begin(
            self._run.folder,
            self._run.id,
            without_services(config),
            project=config["tracking"]["project"],
            group=config["tracking"]["group"],
            job_type=self._run.manifest["kind"],
            mode=mode,
            **words,
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
