"""A sweep's page: its pictures, tables and commands in one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sage_cli.reports.chapters import Chapter
from sage_cli.reports.document import Document, Figure, Report
from sage_cli.reports.page import Page
from sage_cli.reports.sweeps.data import SweepResult, describe
from sage_cli.reports.sweeps.table import describe_counts
from sage_cli.reports.tables.table import Column, Row, Table

TITLES = {
    "heatmap": "Heat map",
    "surface": "Surface",
    "parallel": "Parallel coordinates",
    "slices": "Slices",
    "pareto": "Pareto front",
    "importance": "Importance of the parameters",
    "learning": "Learning curves",
}
"""Stem of a picture -> its heading."""
MARKS = {"done": "good", "failed": "bad"}
"""Colours of words in the page's tables."""


def sweep_page(report: Report, result: SweepResult, name: str, commands: Mapping[int, str]) -> Page:
    """Return the page of a sweep's written report.

    `commands` has by a trial's place the command that trains it.
    """
    document = report.document
    trials, *others = document.tables
    headings = [TITLES[figure.stem] for figure in document.figures]
    alone = [table for table in others if table.title.capitalize() not in headings]
    sections = [
        Document("trials", "Trials", {}, tables=(trials,)),
        *(_picture(figure, others) for figure in document.figures),
        *(Document(f"table-{i}", one.title.capitalize(), {}, tables=(one,))
          for i, one in enumerate(alone)),
        Document("commands", "Commands", {}, tables=(_commands(result, commands),)),
    ]  # fmt: skip
    facts = {
        "sweep": name,
        "trials": describe_counts(result),
        "objectives": ", ".join(result.objectives),
    }
    titled = replace(report, document=replace(document, title=f"{name}: {document.title}"))
    return Page(titled, [Chapter("sweep", document.title, sections)], facts, marks=MARKS)


def _picture(figure: Figure, tables: Sequence[Table]) -> Document:
    """Return a section of one figure with the table of the same title.

    It has the figure's name, by which a page finds the file.
    """
    title = TITLES[figure.stem]
    same = tuple(table for table in tables if table.title.capitalize() == title)
    return Document(figure.stem, title, {}, figures=(figure,), tables=same)


def _commands(result: SweepResult, commands: Mapping[int, str]) -> Table:
    rows = tuple(
        Row((str(place + 1), describe(trial, result.axes), trial.state, commands[place]))
        for place, trial in enumerate(result.trials)
        if place in commands
    )
    columns = (*map(Column, ("trial", "settings", "state")), Column("command", part="command"))
    return Table("the command that trains, or finds, each trial's first run", columns, rows)
