"""W&B as a mirror of metrics.jsonl: it can fail or be rebuilt, the file stays authoritative."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from typing import Any

from sage_cli.config.evaluation import TrackingSection
from sage_cli.store.run import Run

log = logging.getLogger(__name__)


class WandbMirror:
    """One W&B run per run; its first record replays the file, so that a resumed run has one too.

    Offline (the default) everything lies below `runs/<id>/wandb/`; `wandb sync` uploads it.
    """

    def __init__(
        self, tracking: TrackingSection, run: Run, config: Mapping[str, Any], job: str
    ) -> None:
        self._tracking, self._run, self._config, self._job = tracking, run, config, job
        self._mirror: Any = None
        self._failed = tracking.wandb == "off"

    def log(self, record: Mapping[str, Any]) -> None:
        """Mirror a record that metrics.jsonl already holds."""
        if self._failed:
            return
        try:
            if self._mirror is not None:
                self._mirror.log(_plain(record), step=int(record["step"]))
                return
            self._mirror = self._start()
            for earlier in self._run.metrics.read():
                self._mirror.log(_plain(earlier), step=int(earlier["step"]))
        except Exception as error:  # whatever W&B does, training goes on
            self._give_up(error)

    def close(self) -> None:
        """Finish W&B's run."""
        if self._mirror is not None and not self._failed:
            try:
                self._mirror.finish()
            except Exception as error:
                self._give_up(error)

    def _start(self) -> Any:
        import wandb

        mode: Any = self._tracking.wandb
        if mode == "offline":
            shutil.rmtree(self._run.folder / "wandb", ignore_errors=True)
        return wandb.init(
            dir=str(self._run.folder),
            id=self._run.id,
            name=self._run.id,
            project=self._tracking.project,
            group=self._tracking.group,
            job_type=self._job,
            mode=mode,
            resume="allow" if mode == "online" else None,
            config=dict(self._config),
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )

    def _give_up(self, error: Exception) -> None:
        self._failed = True
        log.warning("W&B stopped mirroring %s: %s; metrics.jsonl is whole", self._run.id, error)


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "step"}
