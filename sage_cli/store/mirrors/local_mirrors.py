"""Programs of this machine as mirrors of a run: TensorBoard's event files, trackio's database."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from time import monotonic
from typing import Any

from sage_cli.config.stored import without_services
from sage_cli.store.runs.run import Run


class TensorboardMirror:
    """Event files in a folder of their own: `tensorboard --logdir runs` shows all runs.

    Figures of evaluations are scalars at the last step.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._step = 0

    def open(self, trained_from: int | None) -> None:  # noqa: ARG002
        """Start with an empty folder."""
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(self._folder, ignore_errors=True)
        self._writer = SummaryWriter(str(self._folder))

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics as scalars, the completions as text."""
        self._step = int(record["step"])
        self._scalars({key: value for key, value in record.items() if key != "step"})
        if rollouts:
            self._writer.add_text("rollouts", "\n\n".join(map(_markdown, rollouts)), self._step)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures that are numbers."""
        self._scalars(figures)

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()

    def _scalars(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name, value, self._step)


def _markdown(row: Mapping[str, Any]) -> str:
    """Return grade, reward and gold above the prompt and its completion, as Markdown."""
    text = indent(f"{row['prompt']}{row['completion']}", "    ")
    return f"**{row['grade']}**, reward {row['reward']:g}, gold {row['gold']}\n\n{text}"


WAIT_S = 1.0
"""Rows are written together so often: each write takes about 10 ms, however many they are."""
COLUMNS = ("prompt", "completion", "gold", "grade", "reward")


class TrackioMirror:
    """One trackio run per run, under its id, in the database of `tracking.project`.

    The database is in trackio's own folder (`TRACKIO_DIR`), where its page looks for it. Rows go to
    its storage and not through `trackio.init`, which asks the Hub for a user name and follows
    `TRACKIO_SPACE_ID` and `TRACKIO_SERVER_URL`: so nothing leaves the machine. Figures of
    evaluations are metrics at the last step.
    """

    name = "trackio"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._storage: Any = None
        self._project = ""
        self._step = 0
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._written = monotonic()

    def open(self, trained_from: int | None) -> None:  # noqa: ARG002
        """Remove trackio's rows of this run."""
        from trackio.sqlite_storage import SQLiteStorage

        self._project = self._run.config["tracking"]["project"]
        SQLiteStorage.validate_project_name(self._project)
        SQLiteStorage.delete_run(self._project, self._run.id, run_id=self._run.id)
        self._storage = SQLiteStorage

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics, and the completions as a table, at the step of the same number."""
        self._step = int(record["step"])
        values = {key: value for key, value in record.items() if key != "step"}
        if rollouts:
            rows = [{column: row[column] for column in COLUMNS} for row in rollouts]
            values["rollouts"] = {"_type": "trackio.table", "_value": rows}
        self._add(values)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures that are numbers."""
        self._add({key: value for key, value in figures.items() if isinstance(value, int | float)})

    def close(self) -> None:
        """Write the rows that are left."""
        self._write()

    def _add(self, values: dict[str, Any]) -> None:
        self._waiting.append((self._step, values))
        if monotonic() - self._written > WAIT_S:
            self._write()

    def _write(self) -> None:
        stored = self._run.config
        named = {"_Group": stored["tracking"]["group"], "_Created": self._run.manifest["created"]}
        self._storage.bulk_log(
            self._project,
            self._run.id,
            [values for _, values in self._waiting],
            steps=[step for step, _ in self._waiting],
            config={**without_services(stored), **named},
            run_id=self._run.id,
        )
        self._waiting.clear()
        self._written = monotonic()
