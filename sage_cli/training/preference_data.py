"""Data from guided retries: right completions for SFT, pairs for DPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sage_cli.errors import TrainingError
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.problems.problem import Problem
from sage_cli.training.rollouts.order import permutations


@dataclass(frozen=True)
class Attempt:
    """A problem's completions, each text once and in the order of their indices.

    `right` and `wrong` came to their end; `solved` counts right ones that were cut off, too.
    `sampled` completions and `tokens` are all.
    """

    problem: Problem
    solved: bool
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    sampled: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two completions of a question without its hint: `chosen` came with it, and is right."""

    question: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Lesson:
    """Questions with right completions of their own, pairs, and how many there were of what.

    The texts of `examples` are in the order of SFT, each as often as it is taken in.
    """

    examples: Sequence[tuple[str, str]]
    pairs: Sequence[Pair]
    counts: Mapping[str, int]


def lesson(
    tried: Sequence[Attempt], retried: Sequence[tuple[Attempt, Attempt]], guided: GuidedDpo,
    seed: int,
) -> Lesson:  # fmt: skip
    """Learn from `tried` problems and from failed ones, each `retried` with its hint.

    A pair holds the next right completion with the hint and the next wrong one without it, as long
    as there are both. Raises TrainingError where no pair comes about.
    """
    pairs = [
        Pair(failed.problem.question, _begun(failed, again, guided) + chosen, rejected)
        for failed, again in retried
        for chosen, rejected in zip(again.right, failed.wrong, strict=False)
    ]
    if not pairs:
        raise _nothing_to_prefer(len(tried), len(retried), guided)
    right = [(attempt.problem.question, text) for attempt in tried for text in attempt.right]
    kept = sorted(permutations(len(right), round(guided.sft_share * len(right)), seed))
    order = permutations(len(kept), guided.sft_epochs * len(kept), seed)
    every = [*tried, *(again for _, again in retried)]
    counts = {
        "problems/tried": len(tried),
        "problems/failed": sum(not attempt.solved for attempt in tried),
        "problems/retried": len(retried),
        "problems/rescued": sum(again.solved for _, again in retried),
        "pairs/found": len(pairs),
        "sft/examples": len(kept),
        "sampled/completions": sum(one.sampled for one in every),
        "sampled/tokens": sum(one.tokens for one in every),
    }
    return Lesson([right[kept[place]] for place in order], pairs, counts)


def _begun(failed: Attempt, again: Attempt, guided: GuidedDpo) -> str:
    """Return the part of its own answer that the policy was given."""
    return again.problem.question.removeprefix(failed.problem.question) if guided.continued else ""


def _nothing_to_prefer(tried: int, retried: int, guided: GuidedDpo) -> TrainingError:
    if retried:
        return TrainingError(
            f"of {retried} failed problems that were retried with the first {guided.hint_lines} "
            "lines of their solutions none gave a right completion to prefer to a wrong one",
            "show more of the solutions (rl.hint_lines), or word the hint so that the "
            "policy heeds it (rl.hint)",
        )
    return TrainingError(
        f"of {tried} problems that were tried none was failed and has a hint: there is nothing to "
        "retry",
        "name harder problems (data.rl.name), try more of them (rl.steps, rl.prompts_per_step), or "
        "each less often (rl.rollouts_per_prompt)",
    )
