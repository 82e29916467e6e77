"""The importance of each parameter of a sweep, as bars."""

from __future__ import annotations

from pathlib import Path

from sage_cli.reports.figures.figure import COLOURS, drawing
from sage_cli.reports.sweeps.data import SYMBOLS, SweepResult

BAR_IN, PANEL_IN = 0.32, 2.6


def draw_importances(result: SweepResult, stem: Path) -> None:
    """Draw a panel per objective, the most important parameter of the first one on top."""
    shares = result.importances
    first = next(iter(shares.values()))
    named = dict.fromkeys(name for share in shares.values() for name in share)
    names = sorted(named, key=lambda name: -first.get(name, 0))
    with drawing(stem, PANEL_IN * len(shares) + 0.8, BAR_IN * len(names) + 0.9) as figure:
        panels = figure.subplots(1, len(shares), squeeze=False, sharey=True)[0]
        for axes, (objective, share) in zip(panels, shares.items(), strict=True):
            axes.set_title(objective)
            axes.set_xlabel("importance")
            axes.set_xlim(0, 1.12)
            axes.set_xticks([0, 0.5, 1])
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
            lengths = [share.get(name, 0.0) for name in names]
            axes.barh(range(len(names)), lengths, height=0.6, color=COLOURS[0])
            for row, length in enumerate(lengths):
                axes.text(length + 0.02, row, f"{length:.2f}", va="center", fontsize=8)
        panels[0].set_yticks(range(len(names)), [SYMBOLS.get(name, name) for name in names])
        panels[0].invert_yaxis()
