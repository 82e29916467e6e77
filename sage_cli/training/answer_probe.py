"""Samples a few completions of an initial policy, and judges them as a run's preflight does."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.evaluation.policy_sampler import PolicySampler
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Silent
from sage_cli.training.finding import Finding
from sage_cli.training.first_answers import (
    ENOUGH,
    UNREADABLE,
    FirstAnswers,
    Format,
    JudgedCompletion,
    answers_of,
    judge_answers,
)

FEW = 8
"""Completions that are sampled first; ENOUGH where none of them has a readable answer."""


def probe_answers(
    config: SageConfig, start: Policy, problems: Sequence[Problem]
) -> tuple[FirstAnswers, list[Finding]]:
    """Sample completions as rollouts are, one for each of a few problems, and judge them.

    Nothing is stored. The findings are those that a training run would be stopped by or warned of.
    """
    prompt, limit = config.prompt, config.rollout.max_tokens
    form = Format(
        prompt.format, prompt.answer_open, prompt.answer_close, start.run is not None, limit
    )
    samples = PolicySamples.for_rollouts(start, config, config.run.root)
    spread = problems[:: max(1, len(problems) // ENOUGH)]  # the first are often of one kind
    seen: list[JudgedCompletion] = []
    with (
        PolicySampler(samples, config.sampling, Silent()) as sampler,
        grader_for(config.data.rl.name, config.grading, prompt) as grader,
    ):
        for count in (FEW, ENOUGH - FEW):
            if any(completion.status != UNREADABLE for completion in seen):
                break
            numbers = range(len(seen), len(seen) + count)
            asked = [spread[number % len(spread)] for number in numbers]
            drawn = sampler.draw(asked, config.rl.seed, first=len(seen))
            golds, texts = [p.gold for p in asked], [completion.text for completion in drawn]
            grades = grader.grade_many(
                zip(golds, texts, strict=True), [problem.question for problem in asked]
            )
            seen += [
                JudgedCompletion(
                    completion.text,
                    problem.gold,
                    grade.extracted,
                    grade.status,
                    completion.finish_reason == "length",
                    completion.tokens,
                )
                for problem, completion, grade in zip(asked, drawn, grades, strict=True)
            ]
    answers = answers_of(seen, limit)
    return answers, judge_answers(answers, form, may_stop=True)


def check_first_answers(config: SageConfig, start: Policy, problems: Sequence[Problem]) -> str:
    """Describe a few completions of the initial policy, and show one of them.

    Raises ConfigurationError where a training run would be stopped by them.
    """
    answers, findings = probe_answers(config, start, problems)
    facts, shown = answers.in_words()
    for finding in findings:
        if finding.stops:
            raise ConfigurationError(f"{finding.cause}\n    {shown}", finding.remedy)
    warnings = [f"; {finding.cause}: {finding.remedy}" for finding in findings]
    return "\n    ".join([facts + "".join(warnings), *shown.split("\n")])
