"""The importance of each parameter of a sweep, as points with intervals."""

from __future__ import annotations

from pathlib import Path

from sage_cli.reports.figures.figure import COLOURS, FAINT, drawing
from sage_cli.reports.sweeps.data import SYMBOLS, SweepResult

ROW_IN, PANEL_IN = 0.34, 2.9


def draw_importances(result: SweepResult, stem: Path) -> None:
    """Draw a panel per objective: shares with their intervals, grey where no effect is seen."""
    found = result.importances
    first = next(iter(found.values()))
    named = dict.fromkeys(name for effects in found.values() for name in effects)
    names = sorted(named, key=lambda name: first[name].p if name in first else 1.0)
    with drawing(stem, PANEL_IN * len(found) + 0.8, ROW_IN * len(names) + 1.0) as figure:
        panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for axes, (objective, effects) in zip(panels, found.items(), strict=True):
            axes.set_title(objective)
            axes.set_xlabel("share of the ranks' variance")
            axes.set_xlim(0, 1)
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
            for row, name in enumerate(names):
                if (one := effects.get(name)) is None:
                    continue
                colour = COLOURS[0] if one.seen else FAINT
                axes.hlines(row, one.low, one.high, color=colour, linewidth=1.6, clip_on=False)
                axes.plot([one.share], [row], marker="o", color=colour, clip_on=False)
                if not one.seen:
                    words = {"ha": "right", "va": "bottom", "fontsize": 7, "color": FAINT}
                    axes.text(1, row - 0.08, "no effect seen", **words)
        panels[0].set_yticks(range(len(names)), [SYMBOLS.get(name, name) for name in names])
        panels[0].set_ylim(len(names) - 0.5, -0.6)
