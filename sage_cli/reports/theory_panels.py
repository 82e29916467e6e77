"""The figures of `sage theory`, each drawn from its numbers in the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.reports.figures.figure import COLOURS, FAINT, INK, drawing, line_style, logarithmic

Numbers = Mapping[str, Any]
MARKERS = ("_", "o", "D", "s", "^")


def draw_solutions(numbers: Numbers, stem: Path) -> None:
    """Draw the masses of six completions under each objective's stationary policy."""
    places = np.arange(len(numbers["completions"]))
    colours = (INK, *COLOURS)
    with drawing(stem, 8.2, 3.6) as figure:
        axes = figure.subplots()
        for turn, (name, mass) in enumerate(numbers["mass"].items()):
            shift = 0.13 * (turn - 2)
            if turn == 0:
                axes.hlines(mass, places - 0.38, places + 0.38, color=INK, lw=1.2, label=name)
            else:
                look = {"color": colours[turn], "marker": MARKERS[turn], "label": name}
                axes.scatter(places + shift, mass, s=26, zorder=3, **look)
        logarithmic(axes, "y")
        labels = [
            f"{name}\nq = {q:g}"
            for name, q in zip(numbers["completions"], numbers["q"], strict=True)
        ]
        axes.set_xticks(places, labels, fontsize=8)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("probability")
        axes.set_title(f"Where each objective ends (β = {numbers['beta']:g})")
        figure.legend(loc="outside lower center", ncols=5, fontsize=8, columnspacing=1.2)


def draw_anchors(numbers: Numbers, stem: Path) -> None:
    """Draw the factor that each guide puts on a completion's anchor, against its mass."""
    with drawing(stem, 8.4, 2.8) as figure:
        panels = figure.subplots(1, len(numbers["shift"]), sharex=True, sharey=True)
        for axes, (name, shift), colour in zip(
            panels, numbers["shift"].items(), COLOURS, strict=False
        ):
            axes.axhline(1, color=FAINT, lw=0.8)
            axes.scatter(numbers["reference"], shift, s=12, color=colour, alpha=0.6, lw=0)
            logarithmic(axes, "x", base=100)
            axes.set_title(name)
            axes.set_xlabel("π_ref(y)")
        panels[0].set_ylabel("anchor / π_ref, normalised")


def draw_support(numbers: Numbers, stem: Path) -> None:
    """Draw the chance to be sampled, mass at the optimum, and mass after training."""
    with drawing(stem, 10.2, 3.1) as figure:
        sampled, optimum, rest = figure.subplots(1, 3)
        for turn, (mass, chance) in enumerate(numbers["drawn"].items()):
            sampled.plot(numbers["rollouts"], chance, label=f"π_ref = {mass}", **line_style(turn))
        logarithmic(sampled, "x", base=100)
        sampled.set(xlabel="rollouts", ylabel="probability of being sampled", ylim=(-0.02, 1.32))
        sampled.set_title("Rare answers must be sampled")
        sampled.legend(fontsize=8, loc="upper left")
        for turn, (name, mass) in enumerate(numbers["rare"].items()):
            optimum.plot(numbers["beta"], mass, label=name, **line_style(turn))
        optimum.axhline(numbers["reference"], color=FAINT, lw=1, label="reference")
        _threshold(optimum, numbers["delta"])
        optimum.axvline(numbers["toy_beta"], color=FAINT, lw=0.8, ls=(0, (1, 2)))
        optimum.set(xlabel="β", ylabel="mass of the rare right answer")
        optimum.set_title("The toy's optimum")
        low, high = optimum.get_ylim()
        optimum.set_ylim(low - 0.5 * (high - low), high)
        optimum.legend(fontsize=8, loc="lower left")
        _bars(rest, numbers["at_rest"])
        _threshold(rest, numbers["delta"])
        rest.legend(fontsize=8)
        rest.set_ylim(0, 1.35 * max(rest.get_ylim()))
        rest.set_ylabel("mass of the rare right answer")
        rest.set_title("The toy, trained until it rests")


def draw_estimators(numbers: Numbers, stem: Path) -> None:
    """Draw how much of each estimator's expected gradient a guide changes."""
    from matplotlib.ticker import PercentFormatter

    with drawing(stem, 5.6, 3.2) as figure:
        axes = figure.subplots()
        _bars(axes, numbers["change"])
        axes.legend(fontsize=8)
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
        axes.set_ylabel("change of the expected gradient")
        axes.set_title("What a guide changes, by estimator")


def draw_modes(numbers: Numbers, stem: Path) -> None:
    """Draw a reference with two modes and the single bumps nearest to it."""
    with drawing(stem, 5.6, 3.0) as figure:
        axes = figure.subplots()
        axes.fill_between(numbers["place"], numbers["reference"], color="#d9d9d9", lw=0)
        axes.plot(numbers["place"], numbers["reference"], color=FAINT, lw=1, label="reference")
        for turn, (name, mass) in enumerate(numbers["fits"].items()):
            axes.plot(numbers["place"], mass, label=name, lw=1.6, **line_style(turn))
        axes.set(xlabel="completions, on a line", ylabel="probability", ylim=(0, None))
        axes.set_title("The nearest single bump")
        axes.legend(fontsize=8)


def draw_off_target(numbers: Numbers, stem: Path) -> None:
    """Draw Eq. 32's bound on q(right) / q(wrong), with the line where it is 1."""
    beta, right, bound = (np.asarray(numbers[key]) for key in ("beta", "right_mass", "bound"))
    with drawing(stem, 5.4, 3.8) as figure:
        axes = figure.subplots()
        shown = np.log10(bound).clip(-2, 2)
        mesh = axes.contourf(beta, right, shown, np.linspace(-2, 2, 17), cmap="RdBu_r")
        axes.contour(beta, right, np.log10(bound), [0], colors=[INK], linewidths=1.6)
        for axis in ("x", "y"):
            logarithmic(axes, axis)
        axes.set(xlabel="β", ylabel="right mass of the reference")
        axes.text(0.025, 0.03, "no preference\nneeded", color="white", fontsize=9)
        axes.text(0.32, 0.005, "q must prefer\nright answers", color=INK, fontsize=9)
        axes.set_title("The preference that Eq. 32 asks for")
        bar = figure.colorbar(mesh, ax=axes, ticks=[-2, -1, 0, 1, 2])
        bar.set_ticklabels(["≤ 0.01", "0.1", "1", "10", "≥ 100"])
        bar.set_label("bound on q(right) / q(wrong)")


def draw_paths(numbers: Numbers, stem: Path) -> None:
    """Draw the rare right answer's mass on the way: by strength, by what is held, by what is paid.

    Dots at the right are the optima; the last two panels are of the largest beta that both have.
    """
    panels = list(dict.fromkeys(path["panel"] for path in numbers["path"]))
    with drawing(stem, 10.2, 4.0) as figure:
        for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
            paths = [path for path in numbers["path"] if path["panel"] == panel]
            beta = max(path["beta"] for path in paths)
            one_each = len({path["name"] for path in paths}) == len(paths)
            drawn = [path for path in paths if one_each or path["beta"] == beta]
            axes.axhline(numbers["reference"], color=FAINT, lw=0.8)
            for turn, path in enumerate(drawn):
                name = path["name"].replace("beta ", "β = ")
                axes.plot(numbers["step"], path["mass"], label=name, **line_style(turn))
                if path["optimum"] is not None:
                    look = {"color": COLOURS[turn % len(COLOURS)], "clip_on": False, "zorder": 4}
                    axes.scatter(2 * max(numbers["step"]), path["optimum"], s=14, **look)
            for axis in ("x", "y"):
                logarithmic(axes, axis)
            axes.set_xlim(1, 2 * max(numbers["step"]))
            axes.set_xlabel("steps of length 1")
            axes.set_title(panel if one_each else f"{panel}, β = {beta:g}", fontsize=9)
            axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        figure.axes[0].set_ylabel("mass of the rare right answer")


DRAWINGS: Mapping[str, Callable[[Numbers, Path], None]] = {
    "solutions": draw_solutions,
    "anchors": draw_anchors,
    "support": draw_support,
    "estimators": draw_estimators,
    "modes": draw_modes,
    "off-target": draw_off_target,
    "paths": draw_paths,
}


def _bars(axes: Any, by_series: Mapping[str, Mapping[str, float]]) -> None:
    """Draw groups of bars: a series each, one group per key."""
    width = 0.8 / len(by_series)
    groups: list[str] = []
    for turn, (name, values) in enumerate(by_series.items()):
        groups = list(values)
        places = np.arange(len(groups)) + width * (turn - (len(by_series) - 1) / 2)
        axes.bar(places, list(values.values()), width * 0.9, color=COLOURS[turn], label=name)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")


def _threshold(axes: Any, delta: float) -> None:
    axes.axhline(delta, color=COLOURS[3], lw=1.4, ls=(0, (4, 2)), label=f"δ = {delta:g}")
