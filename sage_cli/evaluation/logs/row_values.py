"""A field of the rows of a log, put beside the samples that are read from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.logs.log import Log
from sage_cli.evaluation.logs.source import LogSource

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_INSIDE = ("", "doc.", "metadata.", "info.", "extra_info.", "task.data.")
"""Where programs keep the columns of a problem's own row: lm-eval and lighteval in `doc`, Inspect
in `metadata`, verifiers in `info` or its task."""
_SHOWN = 12


def with_field(log: Log, source: LogSource, field: str) -> Log:
    """Return a log whose samples have the value of a column of their rows in `fields[field]`.

    Raises ConfigurationError, with the columns that there are, where a row of a sample lacks it.
    """
    values: dict[str, str] = {}
    for location, row in _rows(source):
        for path in (prefix + field for prefix in _INSIDE):
            value = _at(row, path)
            if value not in (None, "", [], {}):
                values[location] = str(value)
                break
    lacking = next((sample.where for sample in log.samples if sample.where not in values), None)
    if lacking is not None:
        row = next((row for location, row in _rows(source) if location == lacking), {})
        raise ConfigurationError(
            f"{lacking} has no field '{field}' to cluster by",
            f"name one that every row has: {', '.join(_columns(row))}; or use --cluster auto",
        )
    samples = [replace(sample, fields={field: values[sample.where]}) for sample in log.samples]
    return replace(log, samples=samples)


def _rows(source: LogSource) -> Iterator[FileRow]:
    """Yield the rows under the names that samples have as their places."""
    if source.is_archive:
        names = (name for name in source.members if name.startswith("samples/"))
        yield from ((f"{source}, {name}", source.member(name)) for name in names)
    elif isinstance(source.first.get("samples"), list):
        samples = source.first["samples"]
        yield from (
            (f"{source}, sample {number}", sample) for number, sample in enumerate(samples, 1)
        )
    else:
        yield from source.rows()


def _at(row: Mapping[str, Any], path: str) -> Any:
    from sage_cli.problems.values import column_value

    try:
        return column_value(row, path)
    except KeyError:
        return None


def _columns(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of a row that hold short values, those of the problem's own row first."""
    inner = [_at(row, prefix.rstrip(".")) for prefix in _INSIDE[1:]]
    named = [name for part in (*inner, row) if isinstance(part, Mapping) for name in part]
    return list(dict.fromkeys(map(str, named)))[:_SHOWN]
