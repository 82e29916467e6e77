"""Prompts and answers that don't fit in a rollout are refused with the limit that is needed."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.problems.problem import Problem
from sage_cli.solution_text import any_of
from sage_cli.training.rollout_lengths import check_lengths

PROBLEMS = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "12*12=?", "144")]
TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])


def said(*sets, positions=None, problems=PROBLEMS):
    config = load((), sets=sets).config
    return check_lengths(config, problems, TOKENIZER, positions)


def test_lengths_in_tokens():
    # "12*12=?" has 7 characters; "144" in two tags that are single tokens 5
    assert said(positions=512) == (
        "prompts have at most 7 tokens and rollouts at most 48; the longest reference answer, "
        "without reasoning, has 5; the model's context has 512 tokens"
    )
    several = [Problem("a", "toy", "1+1=?", any_of(["one and one", "2"]))]
    assert "the longest reference answer, without reasoning, has 3;" in said(
        positions=512, problems=several
    )  # the shortest
    anywhere = ("grading.mode=math-verify", "grading.extract=text", "rollout.max_tokens=3")
    assert "the longest reference answer, without reasoning, has 3" in said(*anywhere)  # no tags


@pytest.mark.parametrize(
    ("sets", "positions", "cause", "mend"),
    [
        # "2" takes 3 tokens, "144" 5
        (
            ("rollout.max_tokens=4",),
            50,
            "1 of 2 problems cannot be answered",
            "max_tokens=5; reasoning",
        ),
        (
            ("rollout.max_tokens=2",),
            50,
            "2 of 2 problems cannot be answered",
            "max_tokens=5; reasoning",
        ),
        # the box is written in characters: \boxed{144} has 11
        (("prompt.answer=boxed", "rollout.max_tokens=8"), 50, "longest answer alone has 11", "=11"),
        # 7 + 48 = 55 tokens, of which 50 fit: 50 - 7 = 43
        ((), 50, "7 tokens, and with rollout.max_tokens 48 that is more than", "max_tokens=43"),
        ((), 7, "7", "leave the longest prompts out"),  # no limit fits
    ],
)
def test_what_does_not_fit_is_said_with_the_limit_that_is_needed(sets, positions, cause, mend):
    with pytest.raises(ConfigurationError, match=cause) as error:
        said(*sets, positions=positions)
    assert mend in str(error.value.next_step)
