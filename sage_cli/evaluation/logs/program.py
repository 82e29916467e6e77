"""A program whose files are read: its name, its recogniser, its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage_cli.evaluation.logs.log import Log, ReadOptions
    from sage_cli.evaluation.logs.source import LogSource


@dataclass(frozen=True)
class Program:
    """How the files of a program are recognised, read and described.

    `name` is what reports and stored runs call it, `title` what its users do. `file`, `sample` and
    `verdict` describe its files in help and docs. `recognise` is asked before anything but the
    first row is read; `read` returns the samples as the user asks for them. With
    `has_fixed_columns` the user can name no other columns by --fields.
    """

    name: str
    title: str
    file: str
    sample: str
    verdict: str
    recognise: Callable[[LogSource], bool]
    read: Callable[[LogSource, ReadOptions], Log]
    has_fixed_columns: bool = False
