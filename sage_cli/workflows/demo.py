"""`sage demo`: the suite `demo` on a laptop, and its curves."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.config.in_words import Stage
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.runs.run import Run
from sage_cli.suite.overrides import Overrides
from sage_cli.suite.planned import planned
from sage_cli.workflows import passk, rl_plan
from sage_cli.workflows.suite import carry_out


@dataclass(frozen=True)
class DemoResult:
    """The base and both trained policies, and their curves."""

    runs: tuple[Run, ...]
    curves: Report


def demo(preset: str, settings: tuple[str, ...], progress: Progress) -> DemoResult:
    """Train the initial policy and both trials, and draw curves; nothing is done twice."""
    found = planned("demo", Overrides((preset,), settings))
    carry_out(found, progress)
    replicates = found.parts[-1].replicates
    runs = tuple(one.policy.run for one in replicates if one.policy.run is not None)
    names = [str(run.folder) for run in runs]
    return DemoResult(runs, passk.passk(replicates[-1].config, names, progress))


def plan(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The stages of the initial policy, both trials and the measurement."""
    replicates = planned("demo", Overrides((preset,), settings)).parts[-1].replicates
    _, without, branch = (one.config for one in replicates)
    measured = plan_measurement(without, [one.policy for one in replicates])
    return [*rl_plan.plan(without), *rl_plan.plan(branch)[1:], measured]
