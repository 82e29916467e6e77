"""Where the uncertainty of a model's pass@k comes from, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sage_cli.metrics import VarianceComponents
from sage_cli.reports.table import Column, Measure, Row, Table

NOTES = (
    "standard deviations of one evaluation's mean pass@k, if only this were drawn anew; "
    "'problems' holds the sampling too",
    "– : unknown. Sampling needs 2k samples per problem, seeds need two of their kind.",
)


def spread_table(
    benchmark: str, spreads: Mapping[str, VarianceComponents], ks: Sequence[int]
) -> Table:
    """A row per model and k of `ks`, a column per source."""
    names = ("problems", "sampling", "evaluation seeds", "training seeds")
    rows = []
    for label, spread in spreads.items():
        sources = (spread.problems_K, spread.sampling_K,
                   spread.evaluation_seeds_K, spread.training_seeds_K)  # fmt: skip
        for place, k in enumerate(spread.ks):
            if k in ks:
                cells = (Measure(float(values_K[place]), digits=4) for values_K in sources)
                rows.append(Row((label, k, *cells), section=label))
    columns = (Column("model"), Column("k"), *map(Column, names))
    return Table(f"sources of uncertainty on {benchmark}", columns, tuple(rows), NOTES)
