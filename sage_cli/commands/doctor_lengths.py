"""`sage doctor`: do prompts and answers fit in the tokens that rollouts and the model have?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sage_cli.commands.train.initial_policy import InitialPolicy
from sage_cli.commands.train.sft import tags
from sage_cli.config.specs import RlSpec, SftSpec
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import read_json
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import ScratchModel


def start_tokenizer(start: InitialPolicy) -> Any:
    """Return the tokenizer of the policy that RL starts from, trained already or not."""
    section = start.spec.model
    if start.policy.exists:
        return start.policy.tokenizer()
    if not isinstance(section, ScratchModel):
        return Policy(section.path, section=section).tokenizer()
    from sage_cli.models.scratch import build_tokenizer

    return build_tokenizer(section, tags(start.spec.prompt), _texts(start.spec))


def start_positions(start: InitialPolicy) -> int | None:
    """Return how many tokens its context has; None where its files don't say."""
    section = start.spec.model
    if start.policy.exists:
        policy = start.policy
    elif isinstance(section, ScratchModel):
        return section.max_positions
    else:
        policy = Policy(section.path, section=section)
    found = read_json(policy.files / "config.json").get("max_position_embeddings")
    return int(found) if found else None


def described_lengths(
    spec: RlSpec, problems: Sequence[Problem], tokenizer: Any, positions: int | None
) -> str:
    """Describe the tokens of prompts and of the shortest right completions.

    Raises ConfigurationError, with the setting that is needed, where they don't fit. A judge of
    one's own may have golds that are no answers, so that they aren't counted.
    """
    template = PromptTemplate.from_section(spec.prompt, tokenizer)
    most = spec.rollout.max_tokens
    prompt = max(_counts(tokenizer, (template.render(one.question) for one in problems)))
    if positions is not None and prompt + most > positions:
        room = positions - prompt
        raise ConfigurationError(
            f"the longest prompt has {prompt:,} tokens and a rollout up to {most:,}, and the "
            f"model's context has {positions:,}",
            f"--set rollout.max_tokens={room} fits"
            if room > 0
            else f"leave out longer problems, or take a model whose context is over {prompt:,}",
        )
    said = f"prompts have up to {prompt:,} tokens, rollouts up to {most:,} more"
    context = "" if positions is None else f"; the model's context has {positions:,}"
    if spec.grading.judge is not None:
        return said + context
    bare = spec.grading.extract == "text"
    answers = (one.gold if bare else template.final(one.gold) for one in problems)
    needed = _counts(tokenizer, answers)
    longer = sum(count > most for count in needed)
    if longer:
        raise ConfigurationError(
            f"{longer:,} of {len(problems):,} problems can't be answered: the longest answer "
            f"takes {max(needed):,} tokens, and rollout.max_tokens is {most:,}",
            f"--set rollout.max_tokens={max(needed)} is the least; working-out takes more",
        )
    return f"{said}, of which bare answers take up to {max(needed):,}{context}"


def _counts(tokenizer: Any, texts: Iterator[str]) -> list[int]:
    ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return list(map(len, ids))


def _texts(spec: SftSpec) -> Iterator[str]:
    """Yield what a BPE vocabulary is learnt from; a character tokenizer reads none of it."""
    for shown in load_demonstrations(spec.data, spec.sft):
        yield f"{shown.question}\n{shown.working}"
