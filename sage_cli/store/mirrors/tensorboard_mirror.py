"""TensorBoard's event files as a mirror of a run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any


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
