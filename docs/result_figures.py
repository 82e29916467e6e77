"""Draw the figure of README from the committed counts of docs/results/smollm2.md.

    python docs/result_figures.py

It is drawn from samples that are counted, so that neither a GPU nor a model is needed.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

from sage_cli.metrics import Counts, Difference, Side, method_difference
from sage_cli.metrics.intervals import curve
from sage_cli.reports.figures import draw_curves

RESULTS = Path(__file__).parent / "results"
COUNTS = RESULTS / "smollm2.counts.parquet"
BENCHMARK = "smollm2/test.jsonl"
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
    panels = {
        title: {side.label: curve(side.counts, KS) for side in pair}
        for title, pair in pairs().items()
    }
    differences = {title: difference(a, b) for title, (a, b) in pairs().items()}
    draw_curves(panels, RESULTS / "smollm2-overview", differences=differences)
    (RESULTS / "smollm2-overview.svg").unlink()  # README shows the other file


def pairs() -> dict[str, tuple[Side, Side]]:
    """Return the two sides of each panel by its title."""
    sides = read_sides()
    return {
        "Effect of RL: SmolLM2-135M, SVAMP": (sides[UNGUIDED], sides[SFT]),
        "Effect of the guide: SmolLM2-135M, SVAMP": (sides[GUIDED], sides[UNGUIDED]),
    }


def difference(a: Side, b: Side) -> Difference:
    """Return A − B, where both arms have the same training seeds in one order."""
    return method_difference(a.runs, b.runs, KS, paired=not b.base)


def read_sides() -> dict[str, Side]:
    """Return the SFT model and both arms of RL, each with the counts of its common seeds."""
    rows: dict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    for row in parquet.read_table(COUNTS).to_pylist():
        if (row["benchmark"], row["n"]) == (BENCHMARK, SAMPLES) and row["seed"] in SEEDS:
            rows[ARMS[row["method"]], row["seed"]].append((row["problem"], row["n"], row["c"]))
    runs: dict[str, list[list[Counts]]] = defaultdict(list)
    for (arm, _), counted in sorted(rows.items()):
        problems, n, c = zip(*sorted(counted), strict=True)
        runs[arm].append([Counts(problems, np.array(n), np.array(c))])
    return {arm: Side(arm, tuple(of_arm), base=arm == SFT) for arm, of_arm in runs.items()}


if __name__ == "__main__":
    main()
