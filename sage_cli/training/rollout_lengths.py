"""Whether prompts and correct answers fit in a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.problems.problem import Problem
from sage_cli.problems.problem_tokens import count_tokens
from sage_cli.problems.template import PromptTemplate
from sage_cli.training.rollouts import context_length


def check_lengths(
    config: SageConfig, problems: Sequence[Problem], tokenizer: Any, positions: int | None
) -> str:
    """Describe the tokens of prompts and of the shortest correct completions.

    Raises ConfigurationError, with the setting that is needed, where they don't fit. A judge of
    one's own may have golds that are not answers, so that they aren't counted.
    """
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    most = config.rollout.max_tokens
    prompts = [template.render(problem.question) for problem in problems]
    prompt = max(count_tokens(prompts, tokenizer))
    context_length(config.rollout, [prompt], positions)  # refuses what doesn't fit
    lengths = f"prompts have at most {prompt:,} tokens and rollouts at most {most:,}"
    context = "" if positions is None else f"; the model's context has {positions:,} tokens"
    if config.grading.judge is not None:
        return lengths + context
    bare = config.grading.extract == "text"
    answers = [min(problem.golds, key=len) for problem in problems]
    needed = count_tokens(answers if bare else list(map(template.final, answers)), tokenizer)
    longer = sum(count > most for count in needed)
    if longer:
        raise ConfigurationError(
            f"{longer:,} of {len(problems):,} problems cannot be answered within "
            f"rollout.max_tokens ({most:,}): the longest answer alone has "
            f"{max(needed):,} tokens",
            f"use at least --set rollout.max_tokens={max(needed)}; reasoning needs more",
        )
    return (
        f"{lengths}; the longest reference answer, without reasoning, has {max(needed):,}{context}"
    )
