"""`sage demo`: the paper's effect in miniature, in a few minutes on a laptop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_cli.cli.console import console, emit, show_plan, show_report
from sage_cli.cli.live import Live
from sage_cli.cli.options import DryRun, Json, Sets
from sage_cli.progress import Progress

if TYPE_CHECKING:
    from sage_cli.models.stages import Stage
    from sage_cli.reports.document import Report
    from sage_cli.store.run import Run


def command(set_: Sets = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Train by SFT, then by DAPO without KL and with the branch guide, and plot pass@k."""
    from sage_cli.models.stages import plan_of

    settings = tuple(set_ or ())

    if dry_run:
        show_plan(lambda: plan_of(stages("tiny", settings)), json)
        return
    with Live() as live:
        result = demo("tiny", settings, live)
    if json:
        folders = [str(run.folder) for run in result.runs]
        emit({"runs": folders, "curves": result.curves.as_json()})
        return
    show_report(result.curves)
    console.print("runs:", *(f"  {run.folder}" for run in result.runs), sep="\n")
    console.print(f"picture: [bold]{result.curves.folder / 'passk.png'}[/]", soft_wrap=True)


@dataclass(frozen=True)
class DemoResult:
    """The base and both trained policies, and their curves."""

    runs: tuple[Run, ...]
    curves: Report


def demo(preset: str, settings: tuple[str, ...], progress: Progress) -> DemoResult:
    """Train the initial policy and both trials, and draw curves; nothing is done twice."""
    from sage_cli.cli.named_models import NamedModels, measure_passk
    from sage_cli.cli.suite_run import carry_out
    from sage_cli.trials.suites.trials import Overrides, planned

    suite = planned("demo", Overrides((preset,), settings))
    carry_out(suite, progress)
    replicates = suite.parts[-1].replicates
    runs = tuple(
        replicate.policy.run for replicate in replicates if replicate.policy.run is not None
    )
    names = [str(run.folder) for run in runs]
    return DemoResult(
        runs, measure_passk(NamedModels.from_config(replicates[-1].config, names), progress)
    )


def stages(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The initial policy, both trials and the measurement."""
    from sage_cli.cli.training_run import RlTraining
    from sage_cli.evaluation.evaluate import Evaluation, EvaluationStage
    from sage_cli.trials.suites.trials import Overrides, planned

    replicates = planned("demo", Overrides((preset,), settings)).parts[-1].replicates
    _, without, branch = (replicate.config for replicate in replicates)
    policies = [replicate.policy for replicate in replicates]
    measured = EvaluationStage(Evaluation(without), policies)
    return [*RlTraining.of(without).stages, RlTraining.of(branch), measured]
