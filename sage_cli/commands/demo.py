"""`sage demo`: the suite `demo` on a laptop, and its curves."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.commands.measure.passk import Measuring, passk
from sage_cli.commands.train.rl import RlTraining
from sage_cli.commands.trials.suite import carry_out
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.planning.dry_run import Stage
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.runs.run import Run
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import planned


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
    return DemoResult(runs, passk(Measuring.of(replicates[-1].config, names), progress))


def stages(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The initial policy, both trials and the measurement."""
    replicates = planned("demo", Overrides((preset,), settings)).parts[-1].replicates
    _, without, branch = (one.config for one in replicates)
    measured = Evaluation.of_config(without).of([one.policy for one in replicates])
    return [*RlTraining.of(without).stages, RlTraining.of(branch), measured]
