"""Say how the study smollm2-dose came out, by the rule that its declaration has: dose_outcome.py.

Reads what docs/results keeps, and prints nothing of it before the last planned seed has ended, or
`--final` says that no further one will: the declaration has no looks.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from dose import FORMULA
from dose_kept import Kept
from dose_pilot import LEAST_Q, q_by_d
from dose_units import PAIR, SEEDS, TEMPERATURES, Line, things

from sage_cli.metrics import Counts, Difference, Side
from sage_cli.metrics.comparison import TrainingSeed, difference_of_sides
from sage_cli.metrics.equal_accuracy import gap_over_temperatures
from sage_cli.metrics.intervals import pass_matrix

ROOT = Path(__file__).resolve().parents[2]
KS, K = (1, 8), 8
JUDGE = f"smollm2/test.jsonl, right by {FORMULA}"
MARGIN = 0.015
"""The paper's average gain: the bound of "equivalent"."""
LEAST_PAIRS = 6
RESAMPLES = 2000


@dataclass(frozen=True)
class Found:
    """A difference at one k with its interval, and the number of training seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:.4f}, {self.high:.4f}], {self.seeds} seeds"

    @property
    def differs(self) -> bool:
        """Return True if the interval is without 0."""
        return self.low > 0 or self.high < 0


def outcome(primary: Found, control: Found | None, q: float) -> str:
    """Return the declared outcome of the primary.

    `control` is the positive control's difference at the same k, `q` the weighted q of branch's
    trainings in their last half.
    """
    if primary.seeds < LEAST_PAIRS:
        return f"not tested: {primary.seeds} pairs of seeds, and {LEAST_PAIRS} are needed"
    if primary.differs:
        return "differs"
    if not q >= LEAST_Q:
        return f"not tested: the weighted q is {q:.3f}, below {LEAST_Q}"
    if control is None or not control.differs:
        return "not tested: the positive control was not told from its anchor"
    if primary.low >= -MARGIN and primary.high <= MARGIN:
        return "equivalent"
    return "undecided"


def of_one_machine(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of trainings that are compared: for each seed those of one initial policy.

    A seed with one arm of the pair isn't reported.
    """
    seeds: defaultdict[tuple[Any, ...], dict[str, Line]] = defaultdict(dict)
    for line in lines:
        if line["seed"] in SEEDS and line["ended"] and line["steps"]:
            seeds[line["seed"], things(line["made_with"])][line["method"]] = line
    chosen: dict[int, dict[str, Line]] = {}
    for (seed, _), arms in seeds.items():
        if {*PAIR} <= arms.keys() and len(arms) > len(chosen.get(seed, {})):
            chosen[seed] = arms
    return [line for _, arms in sorted(chosen.items()) for line in arms.values()]


class Measured:
    """The kept counts by right formulas, of the trainings that are compared."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], trainings: Sequence[Line]) -> None:
        self.trainings = trainings
        self._counts: defaultdict[tuple[str, float], dict[str, tuple[int, int]]] = defaultdict(dict)
        for row in rows:
            if row["benchmark"] == JUDGE:
                counted = self._counts[row["policy"], row["temperature"]]
                counted[row["problem"]] = row["n"], row["c"]

    def counts(self, policy: str, temperature: float) -> Counts | None:
        """Return the counts of a policy at a temperature; None if they are not kept."""
        counted = self._counts.get((policy, temperature))
        if not counted:
            return None
        n_P, c_P = zip(*counted.values(), strict=True)
        return Counts(tuple(counted), np.array(n_P), np.array(c_P))

    def side(self, method: str) -> Side:
        """Return a method's trainings at temperature 1."""
        runs, seeds = [], []
        for line in self.trainings:
            counts = self.counts(line["policy"], 1.0)
            if line["method"] == method and counts is not None:
                runs.append([counts])
                began = ":".join(map(str, things(line["made_with"])))
                seeds.append(TrainingSeed(line["seed"], began, line["policy"]))
        return Side(method, tuple(runs), base=False, seeds=tuple(seeds))

    def difference(self, a: str, b: str, k: int = K) -> Found | None:
        """Return pass@k of method `a` less that of `b`, paired by seed; None with under two."""
        sides = self.side(a), self.side(b)
        if min(len(side.runs) for side in sides) < 2:
            return None
        *_, found = difference_of_sides(*sides, KS)
        return _at(found, k)


def _at(found: Difference, k: int) -> Found:
    column = found.ks.index(k)
    if found.pairing is None:
        raise ValueError("trainings that are compared are paired by seed")
    values = (float(one[column]) for one in (found.mean_K, found.low_K, found.high_K))
    return Found(*values, len(found.pairing.seeds))


def at_equal_accuracy(measured: Measured) -> Found | None:
    """Return branch's pass@8 less anchor's where anchor's mean curve has branch's pass@1.

    Anchor's points at three temperatures, on the problems that all of them have, are joined by
    lines. The interval is the middle 95 % of resampled seeds and problems. None where a seed lacks
    a temperature, or where branch's pass@1 is off the curve.
    """
    temperatures = sorted([1.0, *TEMPERATURES])
    arms = {(line["seed"], line["method"]): line["policy"] for line in measured.trainings}
    seeds = sorted({seed for seed, _ in arms})
    curves = [[measured.counts(arms[seed, "anchor"], t) for t in temperatures] for seed in seeds]
    branch = [measured.counts(arms[seed, "branch"], 1.0) for seed in seeds]
    flat = [*branch, *(one for curve in curves for one in curve)]
    if len(seeds) < 2 or any(one is None for one in flat):
        return None
    common = sorted(set.intersection(*({*one.problem_ids} for one in flat if one is not None)))
    branch_SPK = np.stack([_matrix(one, common) for one in branch])
    anchor_STPK = np.stack([[_matrix(one, common) for one in curve] for curve in curves])
    generator = np.random.default_rng(0)
    mean = equal_gap(branch_SPK.mean((0, 1)), anchor_STPK.mean((0, 2)))
    drawn = []
    for _ in range(RESAMPLES):
        s = generator.integers(0, len(seeds), len(seeds))
        p = generator.integers(0, len(common), len(common))
        own_K = branch_SPK[s][:, p].mean((0, 1))
        drawn.append(equal_gap(own_K, anchor_STPK[s][:, :, p].mean((0, 2))))
    if np.isnan([mean, *drawn]).any():
        return None
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Found(mean, float(low), float(high), len(seeds))


def equal_gap(own_K: np.ndarray, curve_TK: np.ndarray) -> float:
    """Return the gap in pass@8 at the pass@1 of `own_K`; NaN off the curve, T ascending."""
    own, curve = ((values[..., :1].T, values[..., 1:].T) for values in (own_K[None], curve_TK))
    return float(gap_over_temperatures(own, curve, 0, own_K[:1]).difference_R[0])


def _matrix(counts: Counts | None, ids: Sequence[str]) -> np.ndarray:
    """Return pass@1 and pass@8 of some problems, (P, 2)."""
    assert counts is not None
    place = {name: number for number, name in enumerate(sorted(counts.problem_ids))}
    return np.asarray(pass_matrix([counts], KS))[[place[name] for name in ids]]


def main() -> None:
    """Print the outcome with the differences that the declaration puts beside it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--final", action="store_true", help="no further seed will run")
    options = parser.parse_args()
    kept = Kept(ROOT / "docs/results")
    trainings = of_one_machine(kept.lines())
    pairs = {line["seed"] for line in trainings}
    if len(pairs) < len(SEEDS) and not options.final:
        raise SystemExit(f"{len(pairs)} of {len(SEEDS)} seeds are whole, and there are no looks")
    measured = Measured(pq.read_table(kept.counts).to_pylist(), trainings)
    primary = measured.difference("branch", "anchor")
    if primary is None:
        raise SystemExit("not tested: fewer than two pairs of seeds")
    control = measured.difference("control", "anchor")
    q = float(np.mean([q_by_d(one["steps"]) for one in trainings if one["method"] == "branch"]))
    print(f"branch - anchor, pass@8: {primary}: {outcome(primary, control, q)}")
    print(f"    at pass@1: {measured.difference('branch', 'anchor', 1)}")
    print(f"    at equal pass@1: {at_equal_accuracy(measured) or 'not measured'}")
    print(f"control - anchor, pass@8: {control or 'not measured'}")
    print(
        f"envelope - anchor, pass@8: {measured.difference('envelope', 'anchor') or 'not measured'}"
    )
    print(f"q of branch, weighted by d, last half: {q:.3f}")


if __name__ == "__main__":
    main()
