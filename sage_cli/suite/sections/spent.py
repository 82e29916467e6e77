"""What each method's trainings took: completions, tokens, seconds, and beside another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from sage_cli.reports.document import Document
from sage_cli.reports.render import to_records
from sage_cli.reports.table import Column, Measure, Row, Table
from sage_cli.suite.results import MethodResult, PartResult
from sage_cli.trials.trial import Replicate


@dataclass(frozen=True)
class Spent:
    """Of one training, or the mean of several; NaN where it isn't known."""

    completions: float
    tokens: float
    seconds: float

    @classmethod
    def mean(cls, of: Sequence[Spent]) -> Spent:
        """Over trainings; of none NaN."""
        columns = zip(*((one.completions, one.tokens, one.seconds) for one in of), strict=True)
        means = [sum(values) / len(of) for values in columns]
        return cls(*means) if of else cls(nan, nan, nan)


def spent(result: PartResult) -> Document:
    """A row for each trained method, and how often what the first of `against` took."""
    first = result.suite.against[0]
    found = {one.label: of_method(one) for one in result.methods if not one.is_base}
    beside = found.get(result.same.get(first, first), Spent(nan, nan, nan))
    rows = []
    for label, one in found.items():
        ratios = (one.tokens / beside.tokens, one.seconds / beside.seconds)
        counts = (Measure(one.completions, digits=0), Measure(one.tokens, digits=0))
        seconds = Measure(one.seconds, digits=1)
        rows.append(Row((label, *counts, seconds, *(Measure(value, digits=2) for value in ratios))))
    columns = [Column(name) for name in ("method", "completions", "tokens", "seconds")]
    columns += [Column(name, f"times {first}'s") for name in ("tokens", "seconds")]
    table = Table("Cost of a training", tuple(columns), tuple(rows))
    return Document(
        name="spent",
        title="What the methods cost",
        data={"rows": to_records(table)},
        tables=(table,),
        sheets={"spent": table},
        notes=(
            "completions and tokens that were drawn, those that dynamic sampling discarded among "
            "them; means over training seeds",
            "seconds are of the wall's clock: tasks that run side by side take each other's",
        ),
    )


def of_method(method: MethodResult) -> Spent:
    """The mean over its finished trainings."""
    return Spent.mean([_of_training(one) for one in method.replicates if one.policy.exists])


def _of_training(one: Replicate) -> Spent:
    run = one.policy.run
    records = run.metrics.read() if run else []
    completions, tokens = (
        sum(float(one.get(f"drawn/{of}", nan)) for one in records) if records else nan
        for of in ("completions", "tokens")
    )
    manifest = run.known if run else {}
    return Spent(completions, tokens, float(manifest.get("seconds", nan)))
