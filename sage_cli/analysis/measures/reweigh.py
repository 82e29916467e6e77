"""What other methods would have weighed: their advantages of a training's completions."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis, Inputs, TrainedRun
from sage_cli.analysis.reweighing import Weights, batches_of, reweighed
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.panels import Series, draw_lines
from sage_cli.reports.tables.table import Measure, Record, Row, Table, columns, to_records

RATES = (
    ("none right", 0.0, 0.0),
    ("up to 1/4", 0.0, 0.25),
    ("up to 1/2", 0.25, 0.5),
    ("up to 3/4", 0.5, 0.75),
    ("below 1", 0.75, 1.0),
    ("all right", 1.0, 1.0),
)
"""Names of pass rates of a group, from above the first to the second number."""
MOVED = 1e-3
"""A share of a method's largest weight below which a completion counts as not weighed."""


class ReweighData(TypedDict):
    """Shares of each method's weight by the group's pass rate, and agreement between methods."""

    weights: list[Record]
    agreement: list[Record]
    refused: list[Record]


def reweigh(inputs: Inputs) -> Document:
    """Return where each method's weight lies, and where methods agree."""
    found = {label: _weights(run, inputs) for label, run in inputs.trained.items()}
    weights = Table(
        "where the weight lies",
        columns(
            "run, method, completions weighed, on right ones, on their tokens, "
            + ", ".join(name for name, _, _ in RATES)
        ),
        tuple(row for label, of in found.items() for row in _rows(label, of)),
        (
            "weight: the size of the advantage; shares of its sum over all completions that were "
            "trained on, by their group's pass rate",
        ),
    )
    agreement = Table(
        "where methods agree",
        columns("run, method, beside, same sign, opposite, one alone, correlation"),
        tuple(row for label, of in found.items() for row in _agreement(label, of)),
        ("shares of the completions that at least one of the two weighs",),
    )
    refused = Table(
        "not weighed",
        columns("run, method, why"),
        tuple(
            Row((label, name, why))
            for label, of in found.items()
            for name, why in of.refused.items()
        ),
    )
    tables = [
        weights,
        *([agreement] if agreement.rows else []),
        *([refused] if refused.rows else []),
    ]
    notes = [
        "advantages of a generation batch as each method computes them; what a loss does to single "
        "tokens afterwards is not in them",
        *(
            f"{label}: {of.left_out} groups of another size than the others of their step are left "
            "out"
            for label, of in found.items()
            if of.left_out
        ),
    ]
    return Document(
        name="reweigh",
        title="what other methods would have weighed",
        data=ReweighData(
            weights=to_records(weights),
            agreement=to_records(agreement),
            refused=to_records(refused),
        ),
        tables=tuple(tables),
        sheets={"reweigh": weights, "reweigh-agreement": agreement},
        figures=(
            Figure(
                "reweigh",
                partial(
                    draw_lines,
                    curves(found),
                    ["pass rate of the group"] * 2,
                    name_y="advantage / its mean size",
                ),
            ),
        ),
        notes=tuple(notes),
    )


def _weights(run: TrainedRun, inputs: Inputs) -> Weights:
    ledger = run.require_ledger()
    batches = batches_of(run.completions(), ledger)
    steps = int(run.records[-1].get("of", run.records[-1]["step"]))
    return reweighed(batches, inputs.options.methods, steps)


def _rows(label: str, of: Weights) -> list[Row]:
    rows = []
    for method, advantage_R in of.advantage_R.items():
        size_R = np.abs(advantage_R)
        weighed = Measure(float(_moved(advantage_R).mean()))
        on_right = Measure(_share(size_R, of.right_R))
        on_tokens = Measure(_share(size_R * of.tokens_R, of.right_R))
        by_rate = [Measure(_share(size_R, _within(of.rate_R, low, high))) for _, low, high in RATES]
        rows.append(Row((label, method, weighed, on_right, on_tokens, *by_rate), section=label))
    return rows


def _agreement(label: str, of: Weights) -> list[Row]:
    rows = []
    for one, other in combinations(of.advantage_R, 2):
        a_R, b_R = of.advantage_R[one], of.advantage_R[other]
        moved_a, moved_b = _moved(a_R), _moved(b_R)
        either = moved_a | moved_b
        same = moved_a & moved_b & (np.sign(a_R) == np.sign(b_R))
        both = moved_a & moved_b
        shares = [
            Measure(float(part[either].mean()) if either.any() else float("nan"))
            for part in (same, both & ~same, either & ~both)
        ]
        vary = np.ptp(a_R) > 0 and np.ptp(b_R) > 0
        correlation = float(np.corrcoef(a_R, b_R)[0, 1]) if vary else float("nan")
        rows.append(Row((label, one, other, *shares, Measure(correlation)), section=one))
    return rows


def _moved(advantage_R: FloatArray) -> Any:
    """Return which completions have a weight that is not negligible."""
    size_R = np.abs(advantage_R)
    return size_R > MOVED * size_R.max(initial=0)


def _within(rate_R: FloatArray, low: float, high: float) -> Any:
    if low == high:
        return rate_R == low
    below = rate_R < 1 if high == 1 else rate_R <= high
    return (rate_R > low) & below


def _share(size_R: FloatArray, of_R: np.ndarray) -> float:
    total = size_R.sum()
    return float(size_R[of_R].sum() / total) if total else float("nan")


def curves(found: dict[str, Weights]) -> dict[str, dict[str, Series]]:
    """Return the mean advantage of right and of other completions by their group's pass rate.

    Methods are drawn in units of their own mean size, since the learning rate scales them.
    """
    panels: dict[str, dict[str, Series]] = {"right completions": {}, "other completions": {}}
    for label, of in found.items():
        for method, advantage_R in of.advantage_R.items():
            unit = np.abs(advantage_R).mean() or 1.0
            name = method if len(found) == 1 else f"{method}, {label}"
            for title, chosen_R in zip(panels, (of.right_R, ~of.right_R), strict=True):
                rates = np.unique(of.rate_R[chosen_R])
                means = [
                    advantage_R[chosen_R & (of.rate_R == rate)].mean() / unit for rate in rates
                ]
                panels[title][name] = rates, np.array(means)
    return panels


REWEIGH = Analysis(
    "reweigh",
    "advantages that other methods would have given to a training's completions",
    reweigh,
    records=True,
    options=frozenset({"algo"}),
)
