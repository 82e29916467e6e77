"""What hears each step's record: display, mirrors, and safeguards that stop a hopeless training."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sage_cli.errors import DivergedError
from sage_cli.progress import Progress
from sage_cli.settings.sections.runs import TrackingSection
from sage_cli.store.mirrors import Follower, mirrors_of
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step

STUCK_SHARE = 0.95
WARN_AFTER_STEPS, STOP_AFTER_STEPS = 10, 20

_WATCHED_SHARES = {
    "completions/clipped": (
        "completions were cut off at the length limit",
        "raise rollout.max_tokens, or check that the base ends its answers",
    ),
    "groups/zero_variance": (
        "groups had only equal rewards, so that there was nothing to learn from",
        "use easier or harder problems, more rollouts per prompt, or --algo dapo",
    ),
}


class Safeguards:
    """Watches the records of one training.

    A warning after 10 steps in a row with at least 95 % clipped completions or groups of equal
    rewards, a stop after 20; a stop at once when loss or gradient norm isn't finite. With
    `stop=False` only warnings.
    """

    def __init__(self, *, stop: bool) -> None:
        self.stop = stop
        self._stuck_steps = dict.fromkeys(_WATCHED_SHARES, 0)

    def count(self, record: Mapping[str, Any]) -> None:
        """Count a step, one of an earlier session too, without complaint."""
        for key in _WATCHED_SHARES:
            stuck = record.get(key, 0.0) >= STUCK_SHARE
            self._stuck_steps[key] = self._stuck_steps[key] + 1 if stuck else 0

    def check(self, record: Mapping[str, Any]) -> None:
        """Count a step; warn or raise DivergedError where going on is pointless."""
        self.count(record)
        for key in ("loss", "grad_norm"):
            if not math.isfinite(record[key]):
                self._complain(
                    f"{key} is {record[key]} at step {record['step']}",
                    "lower rl.learning_rate or rl.max_grad_norm; `runs` keeps the last checkpoint",
                    final=True,
                )
        for key, (problem, advice) in _WATCHED_SHARES.items():
            steps = self._stuck_steps[key]
            if steps in (WARN_AFTER_STEPS, STOP_AFTER_STEPS):
                cause = f"for {steps} steps at least {STUCK_SHARE:.0%} of the {problem}"
                self._complain(cause, advice, final=steps == STOP_AFTER_STEPS)

    def _complain(self, cause: str, advice: str, *, final: bool) -> None:
        if final and self.stop:
            raise DivergedError(cause, f"{advice}; rl.stop_when_stuck=false trains on regardless")
        warnings.warn(f"{cause}: {advice}", stacklevel=2)


OnStep = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Watch:
    """Callbacks of a training: `on_step` gets each record; `mirrors` are open until it ends.

    `on_validation` is called within a step with the samples so far, and of all.
    """

    on_step: OnStep
    on_validation: Callable[[int, int], None]
    mirrors: Sequence[Follower]


@contextmanager
def watched(
    run: Run, tracking: TrackingSection, job: str, progress: Progress, shown: Mapping[str, str]
) -> Iterator[Watch]:
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
        yield Watch(on_step, on_validation, mirrors)
    finally:
        waiting.close()
        progress.end()
        for mirror in mirrors:
            mirror.close()
