"""The report of `sage power --training-seeds`: what a number of training seeds can detect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.power import POWER, SeedVariation
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Row, Table, columns

ROUGH = 4
"""Training runs from which a variance between seeds is told apart from half of it."""


@dataclass(frozen=True, eq=False)
class SeedDesigns:
    """A question about training seeds on one benchmark, and what stored runs say of them.

    `variations` are by how the seeds of both methods belong together. `correlation_K` is that of
    paired runs, NaN where it isn't known.
    """

    benchmark: str
    variations: Mapping[str, SeedVariation]
    training_seeds: Sequence[int]
    problems: Sequence[int]
    ks: Sequence[int]
    confidence: float
    correlation_K: FloatArray


def seed_power_document(
    designs: Sequence[SeedDesigns], provenance: Provenance, notes: Sequence[str]
) -> Document:
    """Return a table for each benchmark: the smallest detectable difference of each design."""
    tables = tuple(map(_table, designs))
    first = designs[0]
    known = min(variation.known for asked in designs for variation in asked.variations.values())
    rough = f"the variance between training seeds is only roughly known, from {known} runs per side"
    correlated = [
        f"{asked.benchmark}: pass@k of paired runs has correlations from "
        f"{asked.correlation_K.min():.2f} to {asked.correlation_K.max():.2f} over the seeds"
        for asked in designs
        if np.isfinite(asked.correlation_K).all()
    ]
    return Document(
        name="power",
        title="minimum detectable difference of two methods, by number of training seeds",
        provenance=provenance,
        data={
            "k": list(first.ks),
            "power": POWER,
            "confidence": first.confidence,
            "designs": [row for asked in designs for row in _json(asked)],
        },
        tables=tables,
        sheets={"power": tables[0]}
        if len(tables) == 1
        else {f"power-{place}": table for place, table in enumerate(tables, 1)},
        notes=(
            *notes,
            *correlated,
            *([rough] if 0 < known < ROUGH else []),
            f"a difference of this size is detected in {POWER:.0%} of repetitions at "
            f"{1 - first.confidence:.0%} two-sided, by the interval of `sage compare A1,A2,... "
            "B1,B2,...` over problems and training seeds",
            "the number of samples per problem is that of the stored samples; paired means that "
            "both methods train with the same seeds, from one initial policy, on the same rows",
        ),
    )


def _table(asked: SeedDesigns) -> Table:
    gains = (Column(f"pass@{k}", "min. detectable difference") for k in asked.ks)
    rows = tuple(
        Row((seeds, words, problems, *map(Estimate, smallest_K.tolist())), str(seeds))
        for seeds, words, problems, smallest_K in _rows(asked)
    )
    heads = (*columns("training seeds per side#, seeds#, problems#"), *gains)
    return Table(f"minimum detectable difference on {asked.benchmark}", heads, rows)


def _rows(asked: SeedDesigns) -> list[tuple[int, str, int, FloatArray]]:
    return [
        (seeds, words, problems, variation.detectable(seeds, problems, asked.confidence))
        for seeds in asked.training_seeds
        for words, variation in asked.variations.items()
        for problems in asked.problems
    ]


def _json(asked: SeedDesigns) -> list[dict[str, Any]]:
    return [
        {
            "benchmark": asked.benchmark,
            "training_seeds": seeds,
            "seeds": words,
            "problems": problems,
            "smallest": smallest_K,
        }
        for seeds, words, problems, smallest_K in _rows(asked)
    ]
