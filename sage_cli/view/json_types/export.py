"""Types of what an export holds."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.view.json_types.measured import DifferenceView, PasskView, ProblemsView, SampleRow
from sage_cli.view.json_types.runs import RecordsView


class HeldPolicy(TypedDict):
    """What an export holds of a policy on a benchmark: its curve, its problems, some samples.

    `stored` is the number of its stored samples.
    """

    policy: str
    benchmark: str
    passk: PasskView
    problems: ProblemsView
    golds: dict[str, str]
    stored: int
    longest: int
    samples: list[SampleRow]


class Export(TypedDict):
    """What a page without a server is made of; `said` tells what was left out.

    `answers` are by address, `records` by run with all figures. `begin` is where the page begins.
    """

    begin: str
    said: str
    left_out: list[str]
    answers: dict[str, Any]
    records: dict[str, RecordsView]
    policies: list[HeldPolicy]
    differences: list[DifferenceView]
