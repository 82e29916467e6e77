"""Worked pass@k of a suite's methods from exact chances, and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sage_cli.evaluation.exact.chances import Chances
from sage_cli.metrics import parse_ks
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.panels import draw_trade
from sage_cli.reports.tables.table import Measure, Row, Table, columns, to_records
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.results import PartResult


def exact(result: PartResult) -> Document:
    """Return the methods' worked pass@k: means over replicates, curves over temperatures."""
    ks = parse_ks(result.suite.k)
    values = _values(result, ks)
    most = max(ks)
    figures = [Figure("exact", partial(draw_trade, _curves(result, most), most))]
    if paths := _paths(result, most):
        figures.append(Figure("steps", partial(draw_trade, paths, most)))
    return Document(
        name="exact",
        title="Worked pass@k, from exact chances",
        data={"k": list(ks), "values": to_records(values)},
        tables=(_means(result, ks),),
        sheets={"exact": values},
        figures=tuple(figures) if any(result.read.values()) else (),
        notes=(
            "worked pass@k: the chance that one of k samples is one of the right texts that the "
            "generator lists, without sampling error",
            "curves: means over initial policies and seeds, by temperature at the end of training"
            + ("; steps: along the training" if len(figures) > 1 else ""),
            *_missing(result),
        ),
    )


def _means(result: PartResult, ks: Sequence[int]) -> Table:
    """Return a row for each method and benchmark, at the evaluation's temperature."""
    rows = []
    for label, every in result.read.items():
        for benchmark in _benchmarks(every):
            ends = [one.end[benchmark] for one in every]
            means = [_mean(end, one.temperature, ks) for end, one in zip(ends, every, strict=True)]
            starts = len({one.start for one in every})
            rows.append(Row((label, benchmark, starts, len(every), *map(_spread, zip(*means)))))  # noqa: B905
    heads = columns(
        "method, benchmark, initial policies, trainings, "
        + ", ".join(f"worked pass@{k}" for k in ks)
    )
    return Table("Worked pass@k", heads, tuple(rows), ("± over initial policies and seeds",))


def _spread(values: Sequence[float]) -> Measure:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Measure(float(np.mean(values)), sd=sd)


def _values(result: PartResult, ks: Sequence[int]) -> Table:
    """Return a row for each replicate, benchmark, step and temperature."""
    rows = []
    for label, every in result.read.items():
        for one in every:
            name = (label, one.start or "own", one.replicate.seed + 1)
            for benchmark, end in one.end.items():
                for t in end.temperatures:
                    rows.append(Row((*name, benchmark, "end", f"{t:g}", *_cells(end, t, ks))))
                for step, by in one.steps.items():
                    t, chances = one.temperature, by[benchmark]
                    rows.append(
                        Row((*name, benchmark, str(step), f"{t:g}", *_cells(chances, t, ks)))
                    )
    measures = [f"pass@{k}, pass@{k} without guesses" for k in ks]
    heads = f"method, initial policy, seed, benchmark, step, temperature, {', '.join(measures)}"
    return Table("Worked pass@k of each policy", columns(heads), tuple(rows))


def _cells(chances: Chances, temperature: float, ks: Sequence[int]) -> list[Measure]:
    every = _mean(chances, temperature, ks)
    worked = _mean(chances, temperature, ks, guesses=False)
    return [Measure(value, digits=5) for both in zip(every, worked, strict=True) for value in both]


def _mean(
    chances: Chances, temperature: float, ks: Sequence[int], *, guesses: bool = True
) -> list[float]:
    p_P = chances.at(temperature, guesses=guesses)
    return [float(value) for value in worked_pass_at_k(p_P, ks).mean(axis=0)]


def _curves(result: PartResult, k: int) -> dict[str, dict[str, FloatArray]]:
    """Return benchmark -> method -> (T, 2): mean worked pass@1 and pass@k by temperature."""
    curves: dict[str, dict[str, FloatArray]] = {}
    for label, every in result.read.items():
        for benchmark in _benchmarks(every):
            each = [
                [_mean(one.end[benchmark], t, [1, k]) for t in one.end[benchmark].temperatures]
                for one in every
            ]
            curves.setdefault(benchmark, {})[label] = np.mean(each, axis=0)
    return curves


def _paths(result: PartResult, k: int) -> dict[str, dict[str, FloatArray]]:
    """Return benchmark -> method -> (S, 2) by step, over replicates with all steps."""
    paths: dict[str, dict[str, FloatArray]] = {}
    for label, every in result.read.items():
        longest = max((len(one.steps) for one in every), default=0)
        whole = [one for one in every if one.steps and len(one.steps) == longest]
        for benchmark in _benchmarks(whole):
            each = [
                [_mean(by[benchmark], one.temperature, [1, k]) for by in one.steps.values()]
                for one in whole
            ]
            paths.setdefault(benchmark, {})[label] = np.mean(each, axis=0)
    return paths


def _benchmarks(every: Sequence[ReadReplicate]) -> list[str]:
    return list(dict.fromkeys(name for one in every for name in one.end))


def _missing(result: PartResult) -> list[str]:
    notes = []
    for method in result.methods:
        wanted, there = len(method.replicates), len(result.read.get(method.label, ()))
        if there < wanted:
            why = f": {method.why}" if method.why else ""
            notes.append(f"{method.label}: {there} of {wanted} policies are read{why}")
    return notes
