"""The paper's evaluation table: methods down, benchmarks across, pass@k with its spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.bands import pass_matrix
from sage_cli.reports.table import Column, Measure, Row, Table

Scores = Mapping[str, Mapping[int, Measure]]
"""Benchmark -> k -> pass@k, of one model."""


def score(seeds_by_benchmark: Mapping[str, Sequence[Counts]], ks: Sequence[int]) -> Scores:
    """Mean pass@k over problems, then mean and standard deviation over the evaluation seeds."""
    scores: dict[str, dict[int, Measure]] = {}
    for benchmark, seeds in seeds_by_benchmark.items():
        means_SK = np.stack([pass_matrix(seed, ks).mean(axis=0) for seed in seeds])
        sd_K = means_SK.std(axis=0, ddof=1) if len(seeds) > 1 else np.full(len(ks), np.nan)
        mean_K = means_SK.mean(axis=0)
        scores[benchmark] = {
            int(k): Measure(float(mean_K[place]), float(sd_K[place]))
            for place, k in enumerate(ks)
        }  # fmt: skip
    return scores


def evaluation_table(
    title: str,
    results: Mapping[str, Scores],
    published: Mapping[str, Scores] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """A row per model, two or more columns per benchmark, and the unweighted average of each k.

    Benchmarks and ks are those of `results`; `published` rows stand below, with "–" where the
    paper has no number. An average needs every benchmark: with one missing it is undefined.
    """
    benchmarks = list(dict.fromkeys(name for scores in results.values() for name in scores))
    ks = sorted({k for scores in results.values() for by_k in scores.values() for k in by_k})
    columns = [Column("model")]
    columns += [Column(f"pass@{k}", benchmark) for benchmark in benchmarks for k in ks]
    if len(benchmarks) > 1:
        columns += [Column(f"pass@{k}", "average") for k in ks]
    rows = [_row(label, scores, benchmarks, ks) for label, scores in results.items()]
    rows += [
        _row(label, scores, benchmarks, ks, "paper") for label, scores in (published or {}).items()
    ]
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _row(
    label: str, scores: Scores, benchmarks: Sequence[str], ks: Sequence[int], section: str = ""
) -> Row:
    undefined = Measure(float("nan"))
    measures = [[scores.get(name, {}).get(k, undefined) for k in ks] for name in benchmarks]
    cells = [measure for by_k in measures for measure in by_k]
    if len(benchmarks) > 1:
        cells += [Measure(float(np.mean([m.value for m in column]))) for column in zip(*measures)]  # noqa: B905
    return Row((f"{label} ({section})" if section else label, *cells), section)
