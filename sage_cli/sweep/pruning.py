"""Which trainings lag so far behind that they are ended: Optuna's rules, for several objectives.

Optuna judges one objective. Here each is judged by itself, over the same looks, and a training is
ended when it is behind in all of them: one that leads in any may yet be on the front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from sage_cli.sweep.proposal import Proposal, State

ENOUGH = 5
"""Finished cells before the median rule ends any."""
REDUCTION = 4
"""asha keeps one of so many at a rung, and has as many times the steps to the next one."""


def reason_to_prune(
    rule: str, proposal: Proposal, others: Sequence[Proposal], objectives: Sequence[str]
) -> str | None:
    """Why `proposal` is to be ended at its latest look, or None where it goes on.

    `rule` is `none`, `median` or `asha`; `others` are all other proposals of the study.
    """
    if rule == "none" or not proposal.looks:
        return None
    behind = _RULES[rule]
    reasons = [behind(proposal, others, place, name) for place, name in enumerate(objectives)]
    found = [reason for reason in reasons if reason is not None]
    return f"{rule}: {' and '.join(found)}" if len(found) == len(reasons) else None


def _behind_median(
    proposal: Proposal, others: Sequence[Proposal], place: int, name: str
) -> str | None:
    """Its best look so far is below the median of what finished cells had at this step."""
    step = max(proposal.looks)
    done = [one for one in others if one.state is State.DONE]
    theirs = [one.looks[step][place] for one in done if step in one.looks]
    best = max(values[place] for values in proposal.looks.values())
    if len(done) < ENOUGH or not theirs or best >= median(theirs):
        return None
    return (
        f"{name} {best:.3f} by step {step} is below {median(theirs):.3f}, "
        f"the median of {len(theirs)} others"
    )


def _behind_at_rung(
    proposal: Proposal, others: Sequence[Proposal], place: int, name: str
) -> str | None:
    """It reaches a rung and isn't among the best quarter of all that reached it so far.

    Rungs are the first look and 4, 16, ... times as many steps (Li et al. 2020, asynchronous
    successive halving). Of fewer than four, the best goes on.
    """
    step, first = max(proposal.looks), min(proposal.looks)
    rung = first
    while rung * REDUCTION <= step:
        rung *= REDUCTION
    if _look_at(proposal, rung) != step:
        return None  # it was judged at this rung already
    theirs = [one.looks[look][place] for one in others if (look := _look_at(one, rung)) is not None]
    own = proposal.looks[step][place]
    kept = max(1, (len(theirs) + 1) // REDUCTION)
    if sum(value > own for value in theirs) < kept:
        return None
    return (
        f"{name} {own:.3f} at step {step} isn't among the best {kept} of {len(theirs) + 1} "
        "that came so far"
    )


def _look_at(proposal: Proposal, rung: int) -> int | None:
    """The step of the first look at or after a rung."""
    return min((step for step in proposal.looks if step >= rung), default=None)


_RULES: dict[str, Callable[[Proposal, Sequence[Proposal], int, str], str | None]] = {
    "median": _behind_median,
    "asha": _behind_at_rung,
}
