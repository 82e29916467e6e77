"""The report of a comparison: verdicts, a table per benchmark, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap

import numpy as np

from sage_cli.metrics import Comparison
from sage_cli.metrics.counts import STATISTICS
from sage_cli.metrics.intervals import Curve
from sage_cli.reports.comparison.contrast import (
    Contrast,
    adjusted,
    average_of,
    contrast_of_curves,
)
from sage_cli.reports.comparison.notes import comparison_notes, reading_notes
from sage_cli.reports.comparison.numbers import cells_at, comparison_json, contrast_json
from sage_cli.reports.comparison.verdicts import overall_verdicts, told_ks, verdicts_of
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.curves import draw_curves
from sage_cli.reports.labels import AVERAGE
from sage_cli.reports.passk import powers_of_two
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Detail, Row, Table, columns
from sage_cli.store.file_names import file_stems

DIFFERENCE_COLUMNS = "difference, safe=conservative?, detectable, p, p (Holm)"
AVERAGE_NOTE = (
    "all benchmarks have the same weight; interval and p are Howe's, from the errors of the "
    "benchmarks, whose problems are independent"
)
NOTE_LINES = 12
"""Lines of notes that a terminal of `TERMINAL_COLUMNS` shows without `--notes`; one says that there
are more."""
TERMINAL_COLUMNS = 80


def comparison_document(
    comparisons: Mapping[str, Comparison],
    provenance: Provenance,
    notes: Sequence[str] = (),
    guesses: Mapping[str, Curve] | None = None,
) -> Document:
    """Return the report of benchmark -> comparison of the same two sides.

    `guesses` are the curves of guessing without a model by benchmark. `notes` come before the
    report's own. Tables show the powers of two among the ks to be shown; picture, CSV (a file per
    benchmark) and JSON have every k.
    """
    first = next(iter(comparisons.values()))
    statistic, shown = first.statistic, powers_of_two(first.shown)
    rows = {name: contrast_of_curves(comparison) for name, comparison in comparisons.items()}
    if len(comparisons) > 1:
        rows[AVERAGE] = average_of(list(rows.values()))
    rows = adjusted(rows, shown)
    tests = sum(int(np.isfinite(row.holm_K).sum()) for row in rows.values())
    tables = []
    for benchmark, comparison in comparisons.items():
        about_both = comparison_notes(comparison)
        guess = (guesses or {}).get(benchmark)
        table = comparison_table(benchmark, rows[benchmark], shown, about_both, guess)
        tables.append(table if tests > 1 else _without_holm(table))
    if AVERAGE in rows:
        heading = f"the average of {', '.join(comparisons)}"
        tables.append(comparison_table(heading, rows[AVERAGE], shown, (AVERAGE_NOTE,)))
    verdicts = overall_verdicts(rows, shown, tests)
    data = {
        "comparisons": {
            name: comparison_json(a, rows[name])
            | ({"guess": guesses[name].mean_K} if guesses else {})
            for name, a in comparisons.items()
        },
        "average": contrast_json(rows[AVERAGE]) if AVERAGE in rows else None,
        "holm": {"k": shown, "over": list(rows), "tests": tests},
        "verdicts": verdicts,
        "statistic": statistic.name,
    }
    panels = {
        name: dict(zip(rows[name].labels, comparison.curves, strict=True))
        for name, comparison in comparisons.items()
    }
    differences = {name: comparison.difference for name, comparison in comparisons.items()}
    stems, unusual = file_stems(rows), statistic is not STATISTICS["pass"]
    reading = (
        *((f"{statistic.name}: the chance that {statistic.meaning}",) if unusual else ()),
        *reading_notes([row.difference for row in rows.values()]),
        *([f"p (Holm): adjusted for the {tests} tests of these tables"] if tests > 1 else []),
        Detail(f"these are k = {', '.join(map(str, shown))} on {', '.join(rows)}"),
    )
    lines = NOTE_LINES - 1 - len(wrap(provenance.sampled or "", TERMINAL_COLUMNS))
    tables, notes = few_lines(tables, notes, reading, lines)
    return Document(
        name="compare",
        title=f"{statistic.name}: {first.a.label} against {first.b.label}"
        if unusual
        else f"{first.a.label} against {first.b.label}",
        provenance=provenance,
        data=data,
        tables=tuple(tables),
        sheets={
            f"compare-{stems[name]}": comparison_table(name, row, row.difference.ks)
            for name, row in rows.items()
        },
        figures=(
            Figure(
                "compare",
                partial(draw_curves, panels, differences=differences, height=statistic.name),
            ),
        ),
        notes=notes,
        verdicts=tuple(verdicts),
    )


def _without_holm(table: Table) -> Table:
    """Return a table without the column of adjusted p-values, which says nothing of one test."""
    columns = tuple(
        replace(column, detail=column.detail or column.name == "p (Holm)")
        for column in table.columns
    )
    return replace(table, columns=columns)


def few_lines(
    tables: Sequence[Table], notes: Sequence[str], reading: Sequence[str], lines: int
) -> tuple[list[Table], tuple[str, ...]]:
    """Return tables, and `notes` and `reading` as one, with as many turned into details as needed.

    `notes` come first, as they warn of this very comparison, then those of the tables, then how the
    tables are read. What a second table says again is a detail.
    """
    printed = set[str]()

    def fitting(note: str) -> str:
        nonlocal lines
        needed = len(wrap(note, TERMINAL_COLUMNS))
        if isinstance(note, Detail) or note in printed or needed > lines:
            return Detail(note)
        printed.add(note)
        lines -= needed
        return note

    first = tuple(map(fitting, notes))
    fitted = [replace(table, notes=tuple(map(fitting, table.notes))) for table in tables]
    return fitted, (*first, *map(fitting, reading))


def with_own(document: Document, own: Mapping[str, Comparison]) -> Document:
    """Return a comparison behind that with the own control; p of that is in no family."""
    contrasts = {name: contrast_of_curves(comparison) for name, comparison in own.items()}
    ks = {name: powers_of_two(comparison.shown) for name, comparison in own.items()}
    tables = (_without_holm(comparison_table(n, c, ks[n])) for n, c in contrasts.items())
    data = {"own_control": {name: contrast_json(contrast) for name, contrast in contrasts.items()}}
    first = next(iter(contrasts))
    heading = f"On {first}: " if len(contrasts) > 1 else ""
    verdicts = verdicts_of(contrasts[first], told_ks(ks[first]), heading)
    return replace(
        document,
        data={**document.data, **data},
        tables=(*tables, *document.tables),
        verdicts=(*verdicts, *document.verdicts),
    )


def comparison_table(
    benchmark: str,
    contrast: Contrast,
    ks: Sequence[int],
    notes: Sequence[str] = (),
    guess: Curve | None = None,
) -> Table:
    """Return a row per k of `ks`: means, A minus B, intervals, detectable difference, p.

    With the curve of guessing without a model its pass@k stands before both means.
    """
    guessed = [] if guess is None else [Column("guess")]
    heads = (Column("k"), *guessed, *map(Column, contrast.labels), *columns(DIFFERENCE_COLUMNS))
    rows = [
        Row((k, *([] if guess is None else [Estimate(guess.at(k)[0])]), *cells_at(contrast, k)))
        for k in contrast.difference.ks
        if k in ks
    ]
    statistic = contrast.sides[0].counts[0].statistic
    by = "" if statistic is STATISTICS["pass"] else f" by {statistic.name}"
    title = f"{' against '.join(contrast.labels)}{by} on {benchmark}: {contrast.subject}"
    return Table(title, heads, tuple(rows), tuple(notes))
