"""`sage runs plot`: the training records of runs as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.store.files import identity_of

if TYPE_CHECKING:
    from sage_cli.metrics.counts import FloatArray
    from sage_cli.reports.document import Document, Report
    from sage_cli.reports.figures import Series
    from sage_cli.reports.tables import Record
    from sage_cli.store.run import Run

USUAL = ("reward", "loss")
"""The default quantity is the first of these that a run has recorded."""

Records = Sequence[Mapping[str, Any]]


class SeriesJson(TypedDict):
    """A quantity of a run: its values and their steps."""

    quantity: str
    run: str
    step: FloatArray
    value: FloatArray


class PlotData(TypedDict):
    """Every line, and its first and last values."""

    ends: list[Record]
    series: list[SeriesJson]


def plot(root: Path, names: Sequence[str], keys: Sequence[str]) -> Report:
    """Draw `keys` of metrics.jsonl for the runs `names` (`RUN=Label` gives one a label).

    Raises ConfigurationError for a key that no run recorded, StoreError if none recorded a step.
    """
    runs = _labelled(root, names)
    records = {label: run.metrics.read() for label, run in runs.items()}
    keys = _checked(keys, records)
    identity = identity_of("plot", {"runs": [run.id for run in runs.values()], "keys": list(keys)})
    return plot_document(records, keys).write(root / "reports" / f"plot-{identity[:8]}")


def plot_document(records: Mapping[str, Records], keys: Sequence[str]) -> Document:
    """Return a panel for each of `keys` with a line for each run, and a table of the lines."""
    from sage_cli.analysis.measures.dynamics import series
    from sage_cli.reports.document import Document, Figure
    from sage_cli.reports.figures import draw_steps
    from sage_cli.reports.provenance import Provenance
    from sage_cli.reports.tables import Estimate, Row, Table, columns, to_records
    from sage_cli.store.manifest import surroundings

    panels: dict[str, dict[str, Series]] = {}
    rows = []
    for key in keys:
        for label, of_run in records.items():
            step, value = series(of_run, key)
            if len(step):
                panels.setdefault(key, {})[label] = step, value
                ends = (value[0], value[-1], value.min(), value.max())
                cells = [Estimate(float(end), digits=4) for end in ends]
                rows.append(Row((key, label, int(step[-1]), *cells), section=key))
    heads = columns("quantity, run, step, first, last, lowest, highest")
    table = Table("recorded in training", heads, tuple(rows))
    all_series: list[SeriesJson] = [
        {"quantity": key, "run": label, "step": step, "value": value}
        for key, lines in panels.items()
        for label, (step, value) in lines.items()
    ]
    return Document(
        name="plot",
        title=", ".join(keys),
        provenance=Provenance.here(surroundings()),
        data=PlotData(ends=to_records(table), series=all_series),
        tables=(table,),
        sheets={"plot": table},
        figures=(Figure("plot", partial(draw_steps, panels, {})),),
    )


def _labelled(root: Path, names: Sequence[str]) -> dict[str, Run]:
    """Return runs by their labels."""
    from sage_cli.models.policy import split_label
    from sage_cli.store.run import Runs

    labelled: dict[str, Run] = {}
    for name, label in map(split_label, names):
        run = Runs(root).find(name)
        called = label or run.id
        if called in labelled:
            raise ConfigurationError(
                f"two runs would be called '{called}'", "name each run once, with its own label"
            )
        labelled[called] = run
    return labelled


def _checked(keys: Sequence[str], records: Mapping[str, Records]) -> Sequence[str]:
    """Return `keys`, or the default one, if each was recorded by some run as numbers."""
    known = {
        key
        for of_run in records.values()
        for record in of_run
        for key, value in record.items()
        if isinstance(value, int | float)
    }
    if not known:
        raise StoreError(f"{', '.join(records)} recorded no step yet", "wait for the first one")
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
