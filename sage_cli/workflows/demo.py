"""`sage demo`: the suite `demo` on a laptop, and its curves."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.config.in_words import Stage
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.runs.run import Run
from sage_cli.suite.arms import Overrides
from sage_cli.suite.plan import planned
from sage_cli.workflows import passk, rl_plan
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
    return DemoResult(runs, passk.passk(arms[-1].config, names, progress))


def plan(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The base, both arms and the measurement, with what is there of them."""
    arms = planned("demo", Overrides((preset,), settings)).parts[-1].arms
    _, without, branch = (arm.config for arm in arms)
    measured = plan_measurement(without, [arm.policy for arm in arms])
    return [*rl_plan.plan(without), *rl_plan.plan(branch)[1:], measured]
