"""`sage plot`: what trainings recorded at every step, as a picture; also while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.analysis.dynamics import Series, series
from sage_cli.analysis.pictures import steps
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.metrics.counts import FloatArray
from sage_cli.policies.names import split_label
from sage_cli.reports.document import Document, Report
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.render import Record, to_records
from sage_cli.reports.table import Column, Measure, Row, Table
from sage_cli.store.identity import identity_of
from sage_cli.store.manifest import RUNNING
from sage_cli.store.run import Run, Runs
from sage_cli.store.surroundings import surroundings

EVERY_S = 2.0
"""From one look at a training that runs to the next."""
USUAL = ("reward", "loss")
"""Metrics by default: the first that a run has recorded."""

Records = Sequence[Mapping[str, Any]]


class SeriesJson(TypedDict):
    """A quantity of a run: its values, and the steps that they were recorded at."""

    quantity: str
    run: str
    step: FloatArray
    value: FloatArray


class PlotData(TypedDict):
    """Every line that is drawn, and where each begins and ends."""

    ends: list[Record]
    series: list[SeriesJson]


def plot(root: Path, names: Sequence[str], keys: Sequence[str]) -> Report:
    """Draw `keys` of metrics.jsonl for the runs `names` (`RUN=Label` gives one a label).

    Raises ConfigurationError for a key that no run has recorded, StoreError where none has
    recorded anything.
    """
    runs = _labelled(root, names)
    records = {label: run.metrics.read() for label, run in runs.items()}
    keys = _checked(keys, records)
    identity = identity_of("plot", {"runs": [run.id for run in runs.values()], "keys": list(keys)})
    return plot_document(records, keys).write(root / "reports" / f"plot-{identity[:8]}")


def follow(
    root: Path,
    names: Sequence[str],
    keys: Sequence[str],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Report]:
    """A report each time that something new was recorded, until all of the runs have ended."""
    runs = _labelled(root, names)
    seen: list[int] | None = None
    while True:
        running = any(run.status == RUNNING for run in runs.values())
        sizes = [_size(run) for run in runs.values()]
        if sizes != seen and any(sizes):
            yield plot(root, names, keys)
        seen = sizes
        if not running:
            if not any(sizes):
                yield plot(root, names, keys)  # which says that there is nothing
            return
        pause(EVERY_S)


def plot_document(records: Mapping[str, Records], keys: Sequence[str]) -> Document:
    """A panel for each of `keys`, a line for each run, and where each line begins and ends."""
    panels: dict[str, dict[str, Series]] = {}
    rows = []
    for key in keys:
        for label, of_run in records.items():
            line = series(of_run, key)
            if len(line[0]):
                panels.setdefault(key, {})[label] = line
                step, value = line
                ends = (value[0], value[-1], value.min(), value.max())
                cells = [Measure(float(one), digits=4) for one in ends]
                rows.append(Row((key, label, int(step[-1]), *cells), section=key))
    columns = ("quantity", "run", "step", "first", "last", "lowest", "highest")
    table = Table("recorded in training", tuple(map(Column, columns)), tuple(rows))
    every: list[SeriesJson] = [
        {"quantity": key, "run": label, "step": step, "value": value}
        for key, lines in panels.items()
        for label, (step, value) in lines.items()
    ]
    return Document(
        name="plot",
        title=", ".join(keys),
        provenance=Provenance.here(surroundings()),
        data=PlotData(ends=to_records(table), series=every),
        tables=(table,),
        sheets={"plot": table},
        figures=(steps("plot", panels, {}),),
    )


def _labelled(root: Path, names: Sequence[str]) -> dict[str, Run]:
    """Runs by what figures call them."""
    found: dict[str, Run] = {}
    for name, label in map(split_label, names):
        run = Runs(root).find(name)
        called = label or run.id
        if called in found:
            raise ConfigurationError(
                f"two runs would be called '{called}'", "name each run once, with its own label"
            )
        found[called] = run
    return found


def _checked(keys: Sequence[str], records: Mapping[str, Records]) -> Sequence[str]:
    """`keys`, or the usual one; each recorded by some run as numbers."""
    known = {
        key
        for of_run in records.values()
        for record in of_run
        for key, value in record.items()
        if isinstance(value, int | float)
    }
    if not known:
        raise StoreError(
            f"{', '.join(records)} recorded no step yet", "wait for the first one, with --follow"
        )
    if not keys:
        return [next((key for key in USUAL if key in known), sorted(known)[0])]
    for key in keys:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            raise ConfigurationError(
                f"none of these runs recorded '{key}'",
                f"did you mean {close[0]}?" if close else f"they have {', '.join(sorted(known))}",
            )
    return list(dict.fromkeys(keys))


def _size(run: Run) -> int:
    return run.metrics.path.stat().st_size if run.metrics.path.is_file() else 0
