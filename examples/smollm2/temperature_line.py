"""What a lower temperature gives the initial policy, beside what RL gave: docs/results/smollm2.md.

    python examples/smollm2/temperature_line.py docs/results

Reads the kept counts of both studies; neither a model nor the rows are needed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from tables import Study

from sage_cli.metrics import Counts, Side
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.reports.comparison_report import contrast_of

KS = (1, 2, 4, 8)
"""Up to half of the initial policy's 16 samples."""
JUDGES = {"answers": "smollm2/test.jsonl", "formulas": "smollm2/test.jsonl, right by "}
"""What counts as correct, and how the counts name it."""
STUDIES = {64: "60 steps, one H100", 16: "24 steps, two CPU cores"}
RESAMPLES = 2000


def read_line(counts: Path, judge: str) -> dict[float, Side]:
    """Return the initial policy at each temperature below 1 at which it was measured."""
    by_temperature: defaultdict[float, dict[str, tuple[int, int]]] = defaultdict(dict)
    for row in parquet.read_table(counts).to_pylist():
        named, wanted = row["benchmark"], JUDGES[judge]
        fits = named.startswith(wanted) if wanted.endswith(" ") else named == wanted
        if row["unit"].startswith("initial ") and fits:
            by_temperature[row["temperature"]][row["problem"]] = row["n"], row["c"]
    sides = {}
    for temperature, counted in sorted(by_temperature.items()):
        n_P, c_P = zip(*counted.values(), strict=True)
        run = [Counts(tuple(counted), np.array(n_P), np.array(c_P))]
        sides[temperature] = Side(f"initial, T = {temperature:g}", (run,), base=True, seeds=(None,))
    return sides


def table(study: Study, line: dict[float, Side], judge: str) -> Iterator[str]:
    """Yield the initial policy at each temperature, and RL without a guide less it."""
    rl = study.side("anchor", judge)
    for temperature, side in {**line, 1.0: study.side("base", judge)}.items():
        ks = KS if temperature else (1,)  # greedy decoding has one sample
        contrast = contrast_of(rl, side, ks)
        gap = contrast.difference
        for k, mean, low, high in zip(ks, gap.mean_K, gap.low_K, gap.high_K, strict=True):
            own = float(pass_matrix(side.runs[0], (k,)).mean())
            yield (
                f"| {judge} | {temperature:g} | {k} | {own:.3f} | "
                f"{mean:+.3f} [{low:.3f}, {high:.3f}] |"
            )


def at_equal_pass_1(study: Study, line: dict[float, Side], judge: str) -> str:
    """Say how far RL's curve is from the line at RL's own pass@1.

    The line joins the initial policy's points of all temperatures above 0 by pass@1. The interval
    is the middle 95 % of resampled problems and training seeds.
    """
    rl, base = study.side("anchor", judge), study.side("base", judge)
    points = [side.runs[0] for temperature, side in line.items() if temperature] + [base.runs[0]]
    ids = sorted(base.runs[0][0].problem_ids)
    line_TPK = np.stack([_matrix(run, ids) for run in points])
    rl_SPK = np.stack([_matrix(run, ids) for run in rl.runs])
    means = _gaps(rl_SPK.mean((0, 1)), line_TPK.mean(1))
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        p = generator.integers(0, len(ids), len(ids))
        s = generator.integers(0, len(rl_SPK), len(rl_SPK))
        drawn.append(_gaps(rl_SPK[s][:, p].mean((0, 1)), line_TPK[:, p].mean(1)))
    outside = np.isnan(drawn).any(axis=1).mean()
    low_K, high_K = np.nanpercentile(drawn, [2.5, 97.5], axis=0)
    cells = " | ".join(
        f"{mean:+.3f} [{low:.3f}, {high:.3f}]"
        for mean, low, high in zip(means, low_K, high_K, strict=True)
    )
    return f"| {judge}, at equal pass@1 | {cells} | {outside:.3f} of the draws are off the line"


def _gaps(own_K: np.ndarray, line_TK: np.ndarray) -> np.ndarray:
    """Return the gaps at all k but 1 at the pass@1 of `own_K`; NaN off the line."""
    ascending = line_TK[np.argsort(line_TK[:, 0])]
    return np.array(
        [
            own - np.interp(own_K[0], ascending[:, 0], of_line, left=np.nan, right=np.nan)
            for own, of_line in zip(own_K[1:], ascending[:, 1:].T, strict=True)
        ]
    )


def _matrix(run: list[Counts], ids: list[str]) -> np.ndarray:
    """Return pass@k of the problems in their order, (P, K)."""
    place = {name: row for row, name in enumerate(sorted(run[0].problem_ids))}
    return np.asarray(pass_matrix(run, KS))[[place[name] for name in ids]]


def main(folder: Path) -> None:
    """Print the table and the comparison at equal pass@1 of both studies."""
    for samples, title in STUDIES.items():
        study = Study(folder / "smollm2.counts.parquet", samples)
        print(f"\n## {title}\n\n| counted by | temperature | k | initial policy | RL less it |")
        for judge in JUDGES:
            line = read_line(folder / "smollm2-dose.counts.parquet", judge)
            print(*table(study, line, judge), sep="\n")
            print(f"| | k = {' | '.join(map(str, KS[1:]))} |")
            print(at_equal_pass_1(study, line, judge))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
