"""`sage doctor` counts tokens of prompts and answers, and says which limit is needed."""

from __future__ import annotations

import pytest

from sage_cli.commands.doctor import described_lengths
from sage_cli.config.load import load
from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.models.scratch import character_tokenizer
from sage_cli.problems.problem import Problem

PROBLEMS = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "12*12=?", "144")]
TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])


def said(*sets, positions=None, problems=PROBLEMS):
    spec = RlSpec.of(load((), sets=sets).config)
    return described_lengths(spec, problems, TOKENIZER, positions)


def test_lengths_in_tokens():
    # "12*12=?" has 7 characters; "144" in two tags that are single tokens 5
    assert said(positions=512) == (
        "prompts have up to 7 tokens, rollouts up to 48 more, of which bare answers take up to 5; "
        "the model's context has 512"
    )


@pytest.mark.parametrize(
    ("sets", "cause", "mend"),
    [
        # "2" takes 3 tokens, "144" 5
        (("rollout.max_tokens=4",), "1 of 2 problems can't be answered", "max_tokens=5 is the"),
        (("rollout.max_tokens=2",), "2 of 2 problems can't be answered", "max_tokens=5 is the"),
        # the box is written in characters: \boxed{144} has 11
        (("prompt.answer=boxed", "rollout.max_tokens=8"), "longest answer takes 11", "=11"),
        # 7 + 48 = 55 tokens, of which 50 fit: 50 - 7 = 43
        ((), "the longest prompt has 7 tokens and a rollout up to 48", "max_tokens=43 fits"),
    ],
)
def test_what_does_not_fit_is_said_with_the_limit_that_is_needed(sets, cause, mend):
    with pytest.raises(ConfigurationError, match=cause) as error:
        said(*sets, positions=50)
    assert mend in str(error.value.next_step)


def test_a_prompt_beyond_the_context_has_no_limit_that_fits():
    with pytest.raises(ConfigurationError) as error:
        said(positions=7)
    assert "leave out longer problems" in str(error.value.next_step)


def test_text_anywhere_needs_no_tags():
    sets = ("grading.mode=math-verify", "grading.extract=text", "rollout.max_tokens=3")
    assert "bare answers take up to 3" in said(*sets)
