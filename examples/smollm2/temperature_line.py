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
from tables import Study, shown

from sage_cli.metrics import Counts, Side
from sage_cli.metrics.equal_accuracy import UNREACHED_SHARE, gap_over_temperatures
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.reports.comparison.contrast import contrast_of

KS = (1, 2, 4, 8)
"""Up to half of the initial policy's 16 samples."""
SHOWN = (1, 8)
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
    """Yield a row for each temperature: the initial policy, and RL without a guide less it.

    Each difference has its interval and the smallest difference that would be detected.
    """
    rl = study.side("anchor", judge)
    for temperature, side in {**line, 1.0: study.side("base", judge)}.items():
        ks = KS if temperature else (1,)  # greedy decoding has one sample
        contrast = contrast_of(rl, side, ks)
        own_K = pass_matrix(side.runs[0], ks).mean(axis=0)
        cells = [f"{value:.3f}" for k, value in zip(ks, own_K, strict=True) if k in SHOWN]
        cells += [shown(contrast, k) for k in SHOWN if k in ks]
        yield f"| {judge} | {temperature:g} | {' | '.join(cells)} |"


def at_equal_pass_1(study: Study, line: dict[float, Side], judge: str) -> str:
    """Say how far RL's curve is from the line at RL's own pass@1.

    The line joins the initial policy's points of all temperatures by pass@1; greedy decoding gives
    the same answer k times. The interval is the middle 95 % of resampled problems and training
    seeds; there is none where too many of these are off the line.
    """
    rl, base = study.side("anchor", judge), study.side("base", judge)
    rl_SPK = np.stack([pass_matrix(run, KS) for run in rl.runs])
    line_TPK = np.stack([_at_every_k(side) for side in (*line.values(), base)])
    generator, drawn = np.random.default_rng(0), [(rl_SPK.mean((0, 1)), line_TPK.mean(1))]
    for _ in range(RESAMPLES):
        p = generator.integers(0, rl_SPK.shape[1], rl_SPK.shape[1])
        s = generator.integers(0, len(rl_SPK), len(rl_SPK))
        drawn.append((rl_SPK[s][:, p].mean((0, 1)), line_TPK[:, p].mean(1)))
    mean_K, *drawn_RK = gaps(*map(np.stack, zip(*drawn, strict=True)))
    if np.isnan(mean_K).any():
        own, most = drawn[0][0][0], drawn[0][1][:, 0].max()
        return f"| {judge} | pass@1 is {own:.3f}, and at every temperature {most:.3f} or less"
    off = np.isnan(drawn_RK).any(axis=1).mean()
    if off > UNREACHED_SHARE:
        return f"| {judge} | {' | '.join(f'{gap:+.3f}' for gap in mean_K)} | {off:.1%} off the line"
    ends = zip(mean_K, *np.nanpercentile(drawn_RK, [2.5, 97.5], axis=0), strict=True)
    return f"| {judge} | {' | '.join(f'{gap:+.3f} [{a:.3f}, {b:.3f}]' for gap, a, b in ends)} |"


def gaps(own_RK: np.ndarray, line_RTK: np.ndarray) -> np.ndarray:
    """Return the gaps (R, K - 1) at all k but 1 at the pass@1 of `own_RK`; NaN off the line."""
    columns = [
        gap_over_temperatures(
            (own_RK[:, :1], own_RK[:, [k]]),
            (line_RTK[..., 0], line_RTK[..., k]),
            0,
            own_RK[:, 0],
        ).difference_R
        for k in range(1, own_RK.shape[1])
    ]
    return np.stack(columns, axis=1)


def _at_every_k(side: Side) -> np.ndarray:
    """Return pass@k of each problem, (P, K); of one greedy answer pass@1 at every k."""
    (run,) = side.runs
    if run[0].n_P.max() > 1:
        return np.asarray(pass_matrix(run, KS))
    return np.repeat(pass_matrix(run, (1,)), len(KS), axis=1)


def main(folder: Path) -> None:
    """Print the table and the comparison at equal pass@1 of both studies."""
    for samples, title in STUDIES.items():
        study = Study(folder / "smollm2.counts.parquet", samples)
        print(f"\n## {title}\n\n| counted by | T | initial, k = 1 | 8 | RL - initial, k = 1 | 8 |")
        for judge in JUDGES:
            line = read_line(folder / "smollm2-dose.counts.parquet", judge)
            print(*table(study, line, judge), sep="\n")
            print(f"| RL less the line at equal pass@1 | {' | '.join(map(str, KS[1:]))} |")
            print(at_equal_pass_1(study, line, judge))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
