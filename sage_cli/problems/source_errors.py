"""Errors about a source of rows, which say by which setting it was named and who set that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sage_cli.errors import DataError

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig

SectionName = Literal["data.rl", "data.sft", "evaluation"]
"""The sections whose `fields` name columns."""
_SOURCES = {
    "data.rl": "data.rl.name",
    "data.sft": "data.sft.name",
    "evaluation": "evaluation.benchmark",
}
"""The setting that names the source of each section."""


class AbsentFileError(DataError):
    """A file of rows that isn't there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no file {path}", "check the path")
        self.path = path


class AbsentColumnError(DataError):
    """A row without a column, and the columns that may be meant: `question` and `gold`.

    `role` is what the column should hold.
    """

    def __init__(
        self,
        cause: str,
        columns: str,
        question: str,
        gold: str,
        role: Literal["question", "gold", "working"],
    ) -> None:
        self.columns, self.question, self.gold, self.role = columns, question, gold, role
        super().__init__(cause, self.advice("evaluation"))

    def advice(self, section: SectionName) -> str:
        """Return how columns are named where `section` reads the rows."""
        if self.role == "working":
            return (
                f"its columns are {self.columns}; --set {section}.fields.working=COLUMN names the "
                "one with worked solutions, and null learns the golds alone"
            )
        return (
            f"its columns are {self.columns}; name those of the rows, for example with "
            f"--set {section}.fields.question={self.question} "
            f"--set {section}.fields.gold={self.gold}; a dotted path reaches inside, such as "
            "prompt.-1.content"
        )


@contextmanager
def reading(config: SageConfig, section: SectionName, setting: str | None = None) -> Iterator[None]:
    """Say in errors of a source by which setting of `section` it is read, and who set that.

    `setting` names the source where it is not the section's own, for example `sweep.benchmark`.
    """
    try:
        yield
    except AbsentFileError as error:
        setting = setting or _SOURCES[section]
        error.cause += f", which {setting} names ({origin(config, setting)})"
        error.next_step = f"check the path, or name other rows with --set {setting}=FILE"
        if section == "data.sft":
            error.next_step += "; with --set sft.enabled=false RL starts from the model without SFT"
        raise
    except AbsentColumnError as error:
        setting = f"{section}.fields.{error.role}"
        if config.origin(setting) is not None:
            error.cause += f", which {setting} names ({origin(config, setting)})"
        error.next_step = error.advice(section)
        raise


def origin(config: SageConfig, setting: str) -> str:
    """Return who set `setting`, for example `preset smollm2-135m` or `--data`."""
    from sage_cli.config.explain import said_by  # loads the schema, which help pages don't need

    return said_by(setting, config.origin(setting) or "the default")
