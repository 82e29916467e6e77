"""`sage demo`: the pair of Table 3 in miniature, DAPO without KL beside DAPO with branch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sage_cli.config.demo import demo_configs
from sage_cli.config.in_words import Stage
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.executors.build import build_executor, task_resources
from sage_cli.executors.together import do_together
from sage_cli.executors.work import Work
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.run import Run
from sage_cli.workflows import passk, rl, sft

RETRIES = 1


@dataclass(frozen=True)
class DemoResult:
    """The base and both trained policies, and their curves."""

    runs: tuple[Run, ...]
    curves: Report


def demo(preset: str, settings: tuple[str, ...], progress: Progress) -> DemoResult:
    """Base, both arms at once as far as the machine allows, curves; nothing is done twice."""
    configs = demo_configs(preset, settings)
    first = configs[0]
    base, root = sft.sft(first, progress), first.run.root
    policies = [rl.planned_policy(config) for config in configs]
    arms = [policy.run for policy in policies if policy.run is not None]
    folder, processes = root / "suites" / "demo", first.rl.processes
    works = [
        Work(
            run.id, f"arm {run.id}", ("rl",), config, partial(_is_finished, run),
            task_resources(first.executor, processes), run,
        )
        for run, config in zip(arms, configs, strict=True)
    ]  # fmt: skip
    executor = build_executor(first.executor, folder=folder, processes=processes)
    do_together(works, executor, folder, RETRIES, progress)
    runs = (base, *arms)
    names = [str(run.folder) for run in runs]
    return DemoResult(runs, passk.passk(first, names, progress))


def _is_finished(run: Run) -> bool:
    return run.finished


def plan(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The base, both arms and the measurement, with what is there of them."""
    without, branch = demo_configs(preset, settings)
    policies = [
        rl.planned_parent(without, None),
        *(rl.planned_policy(config) for config in (without, branch)),
    ]
    measured = plan_measurement(without, policies)
    return [*rl.plan(without), *rl.plan(branch)[1:], measured]
