"""Draw the figures of docs/results/smollm2.md from its committed counts.

    python docs/result_figures.py

They are drawn from samples that are counted, so that neither a GPU nor a model is needed.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

from sage_cli.metrics import Counts, Side, method_difference
from sage_cli.metrics.intervals import curve
from sage_cli.reports.figures import draw_curves

RESULTS = Path(__file__).parent / "results"
COUNTS = RESULTS / "smollm2.counts.parquet"
ANSWERS = "smollm2/test.jsonl"
FIGURES = {
    "smollm2-overview": ("SmolLM2-135M, SVAMP", ANSWERS),
    "smollm2-formulas": (
        "SVAMP, by formulas",
        f"{ANSWERS}, right by make_rows.py:right_working",
    ),
}
"""Each figure: its data in words, and the benchmark under which its samples are counted."""
SAMPLES = 64
"""Samples per problem of the study on the GPU; the study on CPUs has 16."""
KS = range(1, SAMPLES // 2 + 1)
"""Above half of the samples, the error of pass@k cannot be estimated."""
SEEDS = (1, 2)
"""The training seeds that both arms have."""
SFT, UNGUIDED, GUIDED = "SFT model", "GRPO", "GRPO with branch"
ARMS = {"base": SFT, "anchor": UNGUIDED, "branch": GUIDED}


def main() -> None:
    """Draw what RL changed beside what the guide changed, each above its difference A − B."""
    for name, (data, benchmark) in FIGURES.items():
        sides = read_sides(benchmark)
        pairs = {
            f"Effect of RL: {data}": (sides[UNGUIDED], sides[SFT]),
            f"Effect of the guide: {data}": (sides[GUIDED], sides[UNGUIDED]),
        }
        panels = {
            title: {side.label: curve(side.counts, KS) for side in pair}
            for title, pair in pairs.items()
        }
        # the arms of RL have the same training seeds, in this order; the SFT model is one run
        differences = {
            title: method_difference(a.runs, b.runs, KS, paired=len(b.runs) > 1)
            for title, (a, b) in pairs.items()
        }
        draw_curves(panels, RESULTS / name, differences=differences)
        (RESULTS / f"{name}.svg").unlink()  # the pages show the other file


def read_sides(benchmark: str) -> dict[str, Side]:
    """Return the SFT model and both arms of RL, each with the counts of its common seeds."""
    rows: dict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    for row in parquet.read_table(COUNTS).to_pylist():
        if (row["benchmark"], row["n"]) == (benchmark, SAMPLES) and row["seed"] in SEEDS:
            rows[ARMS[row["method"]], row["seed"]].append((row["problem"], row["n"], row["c"]))
    runs: dict[str, list[list[Counts]]] = defaultdict(list)
    for (arm, _), counted in sorted(rows.items()):
        problems, n, c = zip(*sorted(counted), strict=True)
        runs[arm].append([Counts(problems, np.array(n), np.array(c))])
    return {arm: Side(arm, tuple(of_arm), base=arm == SFT) for arm, of_arm in runs.items()}


if __name__ == "__main__":
    main()
