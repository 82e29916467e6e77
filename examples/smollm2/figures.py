"""Draw the figures of docs/results/smollm2.md from its committed counts.

    python examples/smollm2/figures.py docs/results/smollm2.counts.parquet docs/results

They are drawn from samples that are counted, so that neither a GPU nor a model is needed.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tables import Study

from sage_cli.metrics.comparison import difference_of_sides
from sage_cli.metrics.intervals import curve
from sage_cli.reports.figures.curves import draw_curves

SAMPLES = 64
"""Samples per problem of the study on the GPU; the study on CPUs has 16."""
KS = range(1, SAMPLES // 2 + 1)
"""Above half of the samples, the error of pass@k cannot be estimated."""
LABELS = {"base": "SFT model", "anchor": "GRPO", "branch": "GRPO with branch"}
PANELS = {"Effect of RL": ("anchor", "base"), "Effect of the guide": ("branch", "anchor")}
FIGURES = {
    "smollm2-overview": ("answers", "SmolLM2-135M, SVAMP"),
    "smollm2-formulas": ("formulas", "SVAMP, by formulas"),
}
"""Each figure: what counts as correct, and its data in words."""


def main(counts: Path, folder: Path) -> None:
    """Draw what RL changed beside what the guide changed, each above its difference A − B."""
    study = Study(counts, SAMPLES)
    for name, (judge, data) in FIGURES.items():
        panels, differences = {}, {}
        for effect, methods in PANELS.items():
            labelled = [
                replace(study.side(method, judge), label=LABELS[method]) for method in methods
            ]
            # arms are compared, and shown, on the training seeds that both have
            a, b, differences[f"{effect}: {data}"] = difference_of_sides(*labelled, KS)
            panels[f"{effect}: {data}"] = {side.label: curve(side.counts, KS) for side in (a, b)}
        draw_curves(panels, folder / name, differences=differences)
        (folder / f"{name}.svg").unlink()  # the pages show the other file


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
