"""Judge the answers of a run's first completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sage_cli.training.finding import Finding

UNREADABLE = "unparseable"
"""The status of a completion without an answer that the grader can read."""
ENOUGH = 64
"""Completions without a readable answer that stop a run: of a policy that is readable in one case
of ten, 64 completions are all unreadable in one run of 850 (0.9^64), and 8 in 43% of runs."""
LOW_SHARE = 0.5
"""A share of readable answers below which a run is warned of."""
CUT_SHARE = 0.5
"""A share of completions that are cut off at the limit above which a run is warned of."""
EQUAL_SHARE = 0.9
"""A share of groups with equal rewards above which a run is warned of."""
_SHOWN_CHARACTERS = 2000
"""How much of the shown completion is printed; the rest is counted."""


class JudgedCompletion(NamedTuple):
    """A completion as it was judged, with its number of tokens; `cut_off` by the length limit."""

    completion: str
    gold: str
    extracted: str | None
    status: str
    cut_off: bool
    tokens: int


@dataclass(frozen=True)
class FirstAnswers:
    """What was found of the answers of the first completions of all processes.

    `read` completions have an answer that the grader can read, `correct` the correct one. `cut_off`
    ended at the length limit of `limit` tokens. Of `groups` with one prompt each, `equal` have
    equal rewards. `shown` is one of the completions, an unreadable one if there is one.
    """

    completions: int
    read: int
    correct: int
    cut_off: int
    mean_tokens: float
    limit: int
    groups: int
    equal: int
    shown: JudgedCompletion

    def in_words(self) -> tuple[str, str]:
        """Return the facts as one line, and the shown completion as far as it can be read."""
        equal = f"; {self.equal} of {self.groups} groups have equal rewards" if self.groups else ""
        facts = (
            f"first {self.completions} completions: {self.read} with a readable answer, "
            f"{self.correct} correct, {self.cut_off} cut off at {self.limit:,} tokens, "
            f"{self.mean_tokens:,.0f} tokens on average{equal}"
        )
        text, extracted = self.shown.completion, self.shown.extracted
        left = len(text) - _SHOWN_CHARACTERS
        rest = f" ... and {left:,} more characters" if left > 0 else ""
        answer = "no answer was found" if extracted is None else f"answer: {extracted}"
        shown = (
            f"for example: {text[:_SHOWN_CHARACTERS]}{rest}\n({answer}; gold: {self.shown.gold})"
        )
        return facts, shown


def answers_of(
    seen: Sequence[JudgedCompletion], limit: int, groups: int = 0, n: int = 1
) -> FirstAnswers:
    """Return what was found of completions, of which the first `groups` times `n` are in groups."""
    correct = [completion.status == "right" for completion in seen]
    unreadable = [completion for completion in seen if completion.status == UNREADABLE]
    return FirstAnswers(
        completions=len(seen),
        read=len(seen) - len(unreadable),
        correct=sum(correct),
        cut_off=sum(completion.cut_off for completion in seen),
        mean_tokens=sum(completion.tokens for completion in seen) / len(seen),
        limit=limit,
        groups=groups,
        equal=sum(sum(correct[at * n : at * n + n]) in (0, n) for at in range(groups)),
        shown=[*unreadable, *seen][0],
    )


@dataclass(frozen=True)
class Format:
    """What decides whether an answer can be read: the prompt, and how the run begins."""

    prompt: str
    """`prompt.format`."""
    answer_open: str
    answer_close: str
    trained_by_sft: bool
    """True if SFT has taught the policy how to answer."""
    max_tokens: int


def judge_answers(answers: FirstAnswers, form: Format, *, may_stop: bool) -> list[Finding]:
    """Return what is wrong with the first completions, the worst first.

    A run that mayn't be stopped is warned: one whose rewards don't read the grade, to which an
    answer is nothing, or one that goes on where it is stuck (`rl.stop_when_stuck=false`).
    """
    findings = []
    nothing_read = answers.completions >= ENOUGH and not answers.read
    all_cut = answers.completions >= ENOUGH and answers.cut_off == answers.completions
    if nothing_read or all_cut:
        what = (
            f"none of the first {answers.completions} completions has a readable answer"
            if nothing_read
            else f"all of the first {answers.completions} completions were cut off at "
            f"{answers.limit:,} tokens"
        )
        cut = f", and {answers.cut_off} were cut off at {answers.limit:,} tokens"
        cause = what + (cut if nothing_read and answers.cut_off else "")
        findings.append(Finding(may_stop, cause, _likeliest_remedy(answers, form)))
    elif answers.read < LOW_SHARE * answers.completions:
        cause = f"only {answers.read} of {answers.completions} completions have a readable answer"
        findings.append(Finding(False, cause, _likeliest_remedy(answers, form)))
    elif answers.cut_off > CUT_SHARE * answers.completions:
        cause = (
            f"{answers.cut_off} of {answers.completions} completions were cut off at "
            f"{answers.limit:,} tokens"
        )
        findings.append(Finding(False, cause, _longer(form)))
    if answers.groups and answers.equal > EQUAL_SHARE * answers.groups and not findings:
        cause = (
            f"{answers.equal} of {answers.groups} groups have equal rewards, so they give no "
            "learning signal"
        )
        remedy = "use easier or harder problems, or more rollouts: --set rl.rollouts_per_prompt=16"
        findings.append(Finding(False, cause, remedy))
    return findings


def _likeliest_remedy(answers: FirstAnswers, form: Format) -> str:
    if answers.cut_off > CUT_SHARE * answers.completions:
        return _longer(form)
    if form.prompt == "chat":
        return (
            f"see whether the prompt asks for {form.answer_open} ... {form.answer_close}: "
            "`sage data show --rendered` prints it, and --set prompt.system=... changes it"
        )
    if not form.trained_by_sft:
        return (
            f"the model doesn't write {form.answer_open} ... {form.answer_close} by itself: teach "
            "it by SFT (leave --init out, or start from a run of `sage sft`), or use an instruct "
            "model's own template: --set prompt.format=chat"
        )
    return (
        "compare the completion above with the prompt's format "
        f"(--set prompt.format=..., now {form.prompt})"
    )


def _longer(form: Format) -> str:
    return (
        f"give the completions more room: --set rollout.max_tokens={2 * form.max_tokens}; if they "
        "never end, the model wasn't taught to end its answers (SFT does it)"
    )
