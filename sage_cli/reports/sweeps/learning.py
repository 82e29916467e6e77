"""Learning curves of a sweep's trials: all grey, the best and its equals in colour."""

from __future__ import annotations

from pathlib import Path

from sage_cli.reports.figures.figure import drawing
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.sweeps.marks import ALIKE, BEST, INDISTINGUISHABLE, WORSE

PANEL_IN = (5.2, 3.2)
ENDED = {"failed": ":", "pruned": "--"}
"""State of a trial that ended early -> how its line is drawn."""


def draw_learning(result: SweepResult, stem: Path) -> None:
    """Draw a line per trial that has a curve; those that ended early are dashed or dotted."""
    objective = result.objectives[0]
    best, alike = result.best(objective), result.indistinguishable(objective)
    with drawing(stem, *PANEL_IN) as figure:
        axes = figure.subplots()
        named: set[str] = set()
        for place, trial in enumerate(result.trials):
            if trial.curve is None:
                continue
            colour, width = WORSE, 0.8
            label = str(trial.state) if trial.state in ENDED else ""
            if place == best:
                colour, width, label = BEST, 2.0, "best"
            elif place in alike:
                colour, width, label = ALIKE, 1.2, INDISTINGUISHABLE
            steps, values = zip(*trial.curve.points, strict=True)
            axes.plot(
                steps,
                values,
                color=colour,
                linewidth=width,
                linestyle=ENDED.get(trial.state, "-"),
                zorder=4 if place == best else 3 if place in alike else 2,
                marker="o" if len(steps) == 1 else None,
                label=label if label and label not in named else None,
            )
            named.add(label)
        axes.set_xlabel("step")
        axes.set_ylabel(next(trial.curve.of for trial in result.trials if trial.curve))
        if named - {""}:
            figure.legend(loc="outside lower center", ncols=3, fontsize=8)
