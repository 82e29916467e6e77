"""`sage demo`: the pair of Table 3 in miniature, DAPO without KL beside DAPO with branch."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.config.demo import demo_configs
from sage_cli.config.in_words import Stage
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.run import Run
from sage_cli.workflows import passk, rl, sft


@dataclass(frozen=True)
class DemoResult:
    """The base and both trained policies, and their curves."""

    runs: tuple[Run, ...]
    curves: Report


def demo(preset: str, settings: tuple[str, ...], progress: Progress) -> DemoResult:
    """Base, both arms, curves; what is there already isn't done again."""
    configs = demo_configs(preset, settings)
    base = sft.sft(configs[0], progress)
    arms = [rl.rl(config, progress) for config in configs]
    runs = (base, *arms)
    names = [str(run.folder) for run in runs]
    return DemoResult(runs, passk.passk(configs[0], names, progress))


def plan(preset: str, settings: tuple[str, ...]) -> list[Stage]:
    """The base, both arms and the measurement, with what is there of them."""
    without, branch = demo_configs(preset, settings)
    policies = [
        rl.planned_parent(without, None),
        *(rl.planned_policy(config) for config in (without, branch)),
    ]
    measured = plan_measurement(without, policies)
    return [*rl.plan(without), *rl.plan(branch)[1:], measured]
