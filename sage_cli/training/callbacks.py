"""What hears each step's record: display, mirrors, and safeguards that stop a hopeless training."""

from __future__ import annotations

import math
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sage_cli.errors import DivergedError
from sage_cli.grading.grades import STATUSES
from sage_cli.methods.method import Method
from sage_cli.progress import Progress
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.settings.sections.training import GRADE
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


WINDOW = 10
"""Steps that are looked at together."""
SAME = 0.9
"""The share of the first steps with one and the same mean from which on a reward is constant."""
COLLAPSE = 0.25
"""A window's mean reward below this share of the best window's is a collapse."""
RECOVERY = 0.5
"""From this share of the best window's on it may be said again."""
WORTH = 0.05
"""The best window's mean reward below which a fall is taken for chance."""
MANY = 0.5
"""The share of completions from which on a cause is taken for the cause."""


class RewardWatch:
    """Checks a training's records in order, and warns once until the reward has recovered.

    It also warns of a function among `paid` that gives the same in nearly all of the first steps.
    `earlier` are the records that the run has already: what they gave reason to say was said.
    """

    def __init__(self, earlier: Iterable[Mapping[str, Any]] = (), paid: Iterable[str] = ()) -> None:
        self._means: dict[str, list[float | None]] = {name: [] for name in paid if name != GRADE}
        self._window: deque[Mapping[str, Any]] = deque(maxlen=WINDOW)
        self._best = 0.0
        self._warned = False
        for record in earlier:
            self.check(record)

    def check(self, record: Mapping[str, Any]) -> str | None:
        """The warning after this step, a sentence with figures and advice; None without one."""
        remarks = [*self._constant(record), self._fallen(record)]
        return "; ".join(filter(None, remarks)) or None

    def _constant(self, record: Mapping[str, Any]) -> Iterator[str]:
        """Yield a warning of each paid function whose mean was the same in the first steps."""
        due = min(WINDOW, int(record.get("of", WINDOW)))
        # steps of one batch have one mean, which their first has told
        tells = "reward" in record and record.get("sampled/completions", 1)
        for name, means in self._means.items() if tells else ():
            means.append(record.get(f"reward/{name}"))
            value, count = Counter(means).most_common(1)[0]
            if len(means) == due and count >= SAME * due and due > 1:
                given = "None for every completion" if value is None else f"{value:.4g} on average"
                yield (
                    f"the reward {name} was {given} in {count} of the first {due} steps, and a "
                    "constant reward teaches nothing: look at its function and at rollouts.jsonl"
                )

    def _fallen(self, record: Mapping[str, Any]) -> str | None:
        unpaid = "reward/total" in record and "reward/grade" not in record
        if "reward" not in record or unpaid:
            return None
        self._window.append(record)
        if len(self._window) < WINDOW:
            return None
        mean = _mean(self._window, "reward")
        self._best = max(self._best, mean)
        fell = self._best >= WORTH and mean < COLLAPSE * self._best
        if mean > 0 and not fell:
            self._warned = self._warned and mean < RECOVERY * self._best
            return None
        warned, self._warned = self._warned, True
        before = f", after {self._best:.2f}" if fell else ""
        cause = f"the mean reward of the last {WINDOW} steps is {mean:.2g}{before}"
        return None if warned else f"{cause}: {_figures(self._window)}; {_advice(self._window)}"


def _figures(records: Iterable[Mapping[str, Any]]) -> str:
    """Shares of what keeps a completion from its reward, or a group from its use."""
    return (
        f"{_unparseable(records):.0%} of the completions can't be parsed, "
        f"{_mean(records, 'completions/clipped'):.0%} are cut off at the length limit, "
        f"{_mean(records, 'groups/zero_variance'):.0%} of the groups have equal rewards"
    )


def _advice(records: Iterable[Mapping[str, Any]]) -> str:
    """Return what to check first: the commonest of the earliest causes."""
    if _mean(records, "completions/clipped") >= MANY:
        return "look at rollouts.jsonl, raise rollout.max_tokens, or check that answers end"
    if _unparseable(records) >= MANY:
        return "look at rollouts.jsonl: do answers have the form that prompt.* asks for?"
    return (
        "look at rollouts.jsonl and measure the start with `sage passk`: easier problems, more "
        "rollouts per prompt, a lower rl.learning_rate or a higher anchor.beta may help"
    )


def _unparseable(records: Iterable[Mapping[str, Any]]) -> float:
    counts = [[record.get(f"grade/{status}", 0) for status in STATUSES] for record in records]
    total = sum(map(sum, counts))
    return sum(row[STATUSES.index("unparseable")] for row in counts) / total if total else 0.0


def _mean(records: Iterable[Mapping[str, Any]], key: str) -> float:
    values = [float(record.get(key, 0.0)) for record in records]
    return sum(values) / len(values)


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
    run: Run,
    tracking: TrackingSection,
    job: str,
    progress: Progress,
    shown: Mapping[str, str],
    rl: Method | None = None,
) -> Iterator[Watch]:
    """Show and mirror a training while the block lasts.

    `shown` maps metrics to the names beside the bar. Says where a training is taken up, and when
    its reward, or a part of it that `rl` names, gives reason to look.
    """
    if saved := saved_step(run.checkpoints):
        progress.say(f"[bold]{run.id}[/]: continues from step {saved}")
    paid = [reward.label for reward in getattr(rl, "rewards", ())]  # not every method has rewards
    reward = RewardWatch((row for row in run.metrics.read() if row["step"] <= saved), paid)
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
        if remark := reward.check(metrics):
            progress.say(f"[yellow]warning[/]: {remark}")
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
