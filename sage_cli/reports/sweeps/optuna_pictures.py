"""Optuna's own pictures of a sweep, drawn from its report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.reports.sweeps.result import Axis, SweepResult
from sage_cli.store.files import replacing

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

DPI = 150


def write_pictures(result: SweepResult, folder: Path) -> list[Path]:
    """Write the pictures that `optuna.visualization` has for a sweep as PNG; returns the files.

    Each objective has its history, slices, contours and parallel coordinates for two parameters or
    more, and importances where its values differ. Two or three objectives have a front.
    """
    import matplotlib as mpl
    from matplotlib import pyplot
    from optuna.exceptions import ExperimentalWarning

    files = []
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"backend": "agg"}), warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # all of them are
        for stem, axes in _pictures(result):
            figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
            files.append(folder / f"{stem}.png")
            with replacing(files[-1]) as temporary:
                figure.savefig(temporary, format="png", dpi=DPI, bbox_inches="tight")
            pyplot.close(figure)
    return files


def _pictures(result: SweepResult) -> Iterator[tuple[str, Any]]:
    """Yield the stem of each picture's file, and its axes."""
    from optuna.visualization import matplotlib as drawn

    names = [axis.name for axis in result.space]
    for objective in result.objectives:
        study = _study(result, [objective])
        ending = f"-{objective}" if len(result.objectives) > 1 else ""
        yield f"history{ending}", drawn.plot_optimization_history(study, target_name=objective)
        yield f"slices{ending}", drawn.plot_slice(study, names, target_name=objective)
        if len(names) > 1:
            yield f"contours{ending}", drawn.plot_contour(study, names, target_name=objective)
            yield (
                f"parallel{ending}",
                drawn.plot_parallel_coordinate(study, names, target_name=objective),
            )
        if len(set(result.value_at(objective).values())) > 1:
            yield f"importances{ending}", drawn.plot_param_importances(study, target_name=objective)
    if len(result.objectives) in (2, 3):
        targets = list(result.objectives)
        yield "front", drawn.plot_pareto_front(_study(result, targets), target_names=targets)


def _study(result: SweepResult, objectives: Sequence[str]) -> Study:
    """Return the measured trials as a study in memory, with these of their objectives.

    The stored study has places instead of values where a list is ordered for its sampler.
    """
    import optuna
    from optuna.trial import create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["maximize"] * len(objectives))
    distributions = {axis.name: _distribution(axis) for axis in result.space}
    for trial in result.done.values():
        params = {
            axis.name: trial.settings[axis.key]
            for axis in result.space
            if axis.key in trial.settings
        }
        assert trial.values is not None  # it is done
        frozen = create_trial(
            params=params,
            distributions={name: distributions[name] for name in params},
            values=[trial.values[name] for name in objectives],
        )
        study.add_trial(frozen)
    return study


def _distribution(axis: Axis) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if not axis.is_number:
        return CategoricalDistribution(axis.values or ())
    ends = [float(end) for end in axis.values or (axis.low, axis.high) if end is not None]
    return FloatDistribution(min(ends), max(ends), log=axis.log)
