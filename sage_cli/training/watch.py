"""The progress bar and the trackers, which follow a training run's records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sage_cli.progress import Progress
from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.mirrors import Follower, mirrors_of
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step

OnStep = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class StepCallbacks:
    """Callbacks of a training: `on_step` gets each record; `mirrors` are open until it ends.

    `on_validation` is called within a step with the samples so far, and of all.
    """

    on_step: OnStep
    on_validation: Callable[[int, int], None]
    mirrors: Sequence[Follower]


@contextmanager
def step_callbacks(
    run: Run, tracking: TrackingSection, job: str, progress: Progress, shown: Mapping[str, str]
) -> Iterator[StepCallbacks]:
    """Show and mirror a training while the block lasts.

    `shown` maps metrics to the names beside the bar. Says where a training is taken up.
    """
    if saved := saved_step(run.checkpoints):
        progress.say(f"[bold]{run.id}[/]: continues from step {saved}")
    mirrors = mirrors_of(tracking, run)
    begun, beside = False, dict[str, Any]()
    waiting = ExitStack()

    def on_step(metrics: Mapping[str, Any]) -> None:
        nonlocal begun
        if not begun:
            waiting.close()
            done = int(metrics["step"]) - 1
            progress.begin(f"{job} {run.id}", int(metrics["of"]), "steps", done)
            begun = True
        beside.update({name: metrics[key] for key, name in shown.items() if key in metrics})
        progress.advance(**beside)
        for mirror in mirrors:
            mirror.log(metrics)

    def on_validation(done: int, of: int) -> None:
        if begun:
            progress.advance(0, **beside, **{"validating: samples": float(done), "of": float(of)})

    try:
        waiting.enter_context(progress.doing(f"{job} {run.id}: loading, then the first step"))
        yield StepCallbacks(on_step, on_validation, mirrors)
    finally:
        waiting.close()
        progress.end()
        for mirror in mirrors:
            mirror.close()
