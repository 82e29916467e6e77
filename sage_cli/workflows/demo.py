"""`sage demo`: the suite `demo` on a laptop, and its curves."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.planning.dry_run import Stage
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.runs.run import Run
from sage_cli.suite.arms import Overrides
from sage_cli.suite.plan import planned
from sage_cli.workflows.passk import Measuring, passk
from sage_cli.workflows.rl import RlTraining
from sage_cli.workflows.suite import carry_out


@dataclass(frozen=True)
class DemoResult:
    """The base and both trained policies, and their curves."""

    runs: tuple[Run, ...]
    curves: Report


def demo(preset: str, settings: tuple[str, ...], progress: Progress) -> DemoResult:
    """Base, both arms at once as far as the machine allows, curves; nothing is done twice."""
    found = planned("demo", Overrides((preset,), settings))
    carry_out(found, progress)
    arms = found.parts[-1].arms
    runs = tuple(arm.policy.run for arm in arms if arm.policy.run is not None)
    names = [str(run.folder) for run in runs]
    return DemoResult(runs, passk(Measuring.of(arms[-1].config, names), progress))


def stages(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The base, both arms and the measurement."""
    arms = planned("demo", Overrides((preset,), settings)).parts[-1].arms
    _, without, branch = (arm.config for arm in arms)
    measured = Evaluation.of_config(without).of([arm.policy for arm in arms])
    return [*RlTraining.of(without).stages, RlTraining.of(branch), measured]
