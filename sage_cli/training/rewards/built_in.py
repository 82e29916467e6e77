"""The built-in rewards besides the grade, in the form of TRL's reward functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sage_cli.grading.extract import AnswerTags, extract
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.rollout import RolloutSection

RewardFunction = Callable[..., Sequence[Any]]


def built_in(name: str, prompt: PromptSection, rollout: RolloutSection) -> RewardFunction:
    """Return the reward `format` or `brevity` under these settings."""

    def formed(completions: Sequence[str], **_: Any) -> list[float]:
        return [float(has_form(text, prompt)) for text in completions]

    def brevity(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return [length_left(len(ids), rollout.max_tokens) for ids in completion_ids]

    functions: dict[str, RewardFunction] = {"format": formed, "brevity": brevity}
    return functions[name]


def has_form(text: str, prompt: PromptSection) -> bool:
    r"""Return True if the answer stands where the prompt asks for it, once.

    Under `prompt.answer: tags` the opening and the closing tag stand there once each, in this
    order, with more than space between them and no more than space behind. Under `boxed` a closed
    \boxed{} has something in it.
    """
    tags = AnswerTags(prompt.answer_open, prompt.answer_close)
    answer = extract(text, tags, prompt.answer)
    if answer is None or not answer.strip():
        return False
    if prompt.answer != "tags":
        return True
    once = text.count(tags.open) == text.count(tags.close) == 1
    return once and not text.partition(tags.close)[2].strip()


def length_left(tokens: int, limit: int) -> float:
    """Return 1 - tokens / limit: 1 for nothing, 0 at `rollout.max_tokens`."""
    return 1 - tokens / limit
