"""Rules that end trials that lag behind: Optuna's, for several objectives.

Optuna judges one objective. Here each is judged by itself on the same validations, and a trial is
ended if it is behind in all of them: one that leads in any may yet be on the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from sage_cli.settings.sections.sweep import SweepSection
from sage_cli.store.runs.run import Run
from sage_cli.trials.search.scores import validations
from sage_cli.trials.search.study.study_trial import State, StudyTrial

if TYPE_CHECKING:
    from sage_cli.trials.search.study.study import Study

ENOUGH = 5
"""Finished trials before the median rule ends any."""
REDUCTION = 4
"""asha keeps one of so many at a rung; the next rung has as many times the steps."""


class Pruner:
    """Tells the study the validations of running trials, and which of these lag behind."""

    def __init__(self, settings: SweepSection, study: Study) -> None:
        self._settings, self._study = settings, study
        self._reported: dict[int, int] = {}

    @property
    def is_on(self) -> bool:
        """Return True if trials are pruned at all."""
        return self._settings.prune != "none"

    def report(self, trial: StudyTrial, run: Run) -> Iterator[int]:
        """Tell the study the validations that it does not know; yields the step of each."""
        for step, values in validations(run, self._settings.objectives):
            if step > self._reported.get(trial.number, 0):
                self._reported[trial.number] = step
                self._study.report(trial, step, values)
                yield step

    def reason(self, number: int) -> str | None:
        """The reason to end a trial at its latest validation; None if it continues."""
        trials = {one.number: one for one in self._study.trials()}
        others = [one for one in trials.values() if one.number != number]
        return reason_to_prune(
            self._settings.prune, trials[number], others, self._settings.objective
        )


def reason_to_prune(
    rule: str, trial: StudyTrial, others: Sequence[StudyTrial], objectives: Sequence[str]
) -> str | None:
    """The reason to end `trial` at its latest validation; None if it continues.

    `rule` is `none`, `median` or `asha`; `others` are all other trials of the study.
    """
    if rule == "none" or not trial.validations:
        return None
    behind = _RULES[rule]
    reasons = [behind(trial, others, place, name) for place, name in enumerate(objectives)]
    found = [reason for reason in reasons if reason is not None]
    return f"{rule}: {' and '.join(found)}" if len(found) == len(reasons) else None


def _behind_median(
    trial: StudyTrial, others: Sequence[StudyTrial], place: int, name: str
) -> str | None:
    """Its best validation so far is below the median of finished trials at this step."""
    step = max(trial.validations)
    done = [one for one in others if one.state is State.DONE]
    theirs = [one.validations[step][place] for one in done if step in one.validations]
    best = max(values[place] for values in trial.validations.values())
    if len(done) < ENOUGH or not theirs or best >= median(theirs):
        return None
    return (
        f"{name} {best:.3f} by step {step} is below {median(theirs):.3f}, "
        f"the median of {len(theirs)} others"
    )


def _behind_at_rung(
    trial: StudyTrial, others: Sequence[StudyTrial], place: int, name: str
) -> str | None:
    """It reaches a rung and is not among the best quarter of all that reached it so far.

    Rungs are the first validation and 4, 16, ... times as many steps (Li et al. 2020, asynchronous
    successive halving). Of fewer than four, the best continues.
    """
    step, first = max(trial.validations), min(trial.validations)
    rung = first
    while rung * REDUCTION <= step:
        rung *= REDUCTION
    if _validated_at(trial, rung) != step:
        return None  # it was judged at this rung already
    theirs = [
        one.validations[at][place] for one in others if (at := _validated_at(one, rung)) is not None
    ]
    own = trial.validations[step][place]
    kept = max(1, (len(theirs) + 1) // REDUCTION)
    if sum(value > own for value in theirs) < kept:
        return None
    return (
        f"{name} {own:.3f} at step {step} is not among the best {kept} of {len(theirs) + 1} "
        "that came so far"
    )


def _validated_at(trial: StudyTrial, rung: int) -> int | None:
    """The step of the first validation at or after a rung."""
    return min((step for step in trial.validations if step >= rung), default=None)


_RULES: dict[str, Callable[[StudyTrial, Sequence[StudyTrial], int, str], str | None]] = {
    "median": _behind_median,
    "asha": _behind_at_rung,
}
