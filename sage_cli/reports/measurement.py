"""What measuring a policy found, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.metrics import Counts


@dataclass(frozen=True)
class Measured:
    """One policy on one benchmark with one evaluation seed.

    `statuses` counts verdicts over all completions, `truncated` those cut off at the token limit.
    """

    policy: str
    benchmark: str
    seed: int
    counts: Counts
    statuses: Mapping[str, int]
    truncated: int
    sample_set: str


def record(measured: Measured) -> dict[str, Any]:
    """A measurement for a JSON file: verdicts, and n and c of every problem."""
    counts = measured.counts
    return {
        "seed": measured.seed,
        "sample_set": measured.sample_set,
        "statuses": dict(measured.statuses),
        "truncated": measured.truncated,
        "problems": [
            {"problem": id_, "n": int(n), "c": int(c)}
            for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
        ],
    }


def verdict_notes(measured: Sequence[Measured]) -> tuple[str, ...]:
    """`grpo on aime, evaluation seed 0: 40 right, 8 wrong; 2 cut off`, a line per measurement."""
    return tuple(f"{one.policy} on {one.benchmark}, evaluation seed {one.seed}: {_verdicts(one)}"
                 for one in measured)  # fmt: skip


def _verdicts(measured: Measured) -> str:
    counted = ", ".join(f"{count} {status}" for status, count in measured.statuses.items())
    return counted + (f"; {measured.truncated} cut off" if measured.truncated else "")
