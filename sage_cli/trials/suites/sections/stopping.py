"""Whether a suite may stop, by the rule that it declares."""

from __future__ import annotations

from typing_extensions import TypedDict

from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Measure, Record, Row, Table, columns, to_records
from sage_cli.trials.suites.results import PartResult
from sage_cli.trials.suites.stopping import stopping

DIGITS = 4


class StoppingData(TypedDict):
    """The decision with its reason, and each look at the first primary trade."""

    trade: str
    decision: str
    why: str
    looks: list[Record]


def stopping_rule(result: PartResult) -> Document:
    """Return the section of a suite's stopping rule."""
    found = stopping(result)
    rule = found.stop
    rows = tuple(
        Row(
            (
                look.count,
                Measure(look.mean, interval=(look.low, look.high), digits=DIGITS, signed=True),
                Measure(look.alpha, digits=DIGITS),
                "excludes 0" if look.excludes_zero
                else "within" if look.lies_within(rule.within) else "open",
            )
        )
        for look in found.looks
    )  # fmt: skip
    heads = columns("initial policies, difference, level, interval")
    table = Table(f"Stopping rule: {found.decision}", heads, rows, (found.why,))
    data: StoppingData = {
        "trade": found.trade.name,
        "decision": found.decision,
        "why": found.why,
        "looks": to_records(table),
    }
    bound = "" if rule.within is None else f", or lies within ± {rule.within:g}"
    return Document(
        name="stopping",
        title="May the study stop?",
        data=data,
        tables=(table,),
        sheets={"stopping": table},
        notes=(
            f"the study may stop when the interval of {found.trade.name} excludes 0{bound}, at "
            f"{', '.join(map(str, rule.looks))} initial policies",
            f"in {1 - rule.alpha:.0%} of studies no look's interval excludes the true mean; it is "
            "over initial policies, each a mean over training seeds",
        ),
    )
