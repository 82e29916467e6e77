"""Pairs and right tries of attempts, by hand."""

import pytest

from sage_cli.errors import TrainingError
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.problems.problem import Problem
from sage_cli.training.guided_retries import Attempt, Pair, lesson


def attempt(question, right=(), wrong=(), *, solved=None):
    problem = Problem(question, "b", question, "7")
    drawn = len(right) + len(wrong) + 1  # one was cut off
    solved = bool(right) if solved is None else solved
    return Attempt(problem, solved, tuple(right), tuple(wrong), drawn, 10 * drawn)


SOLVED = attempt("easy", ["7", "07", "7.", "+7"], ["8"])
FAILED = attempt("hard", [], ["1", "2", "3"])
WITHOUT_HINT = attempt("bare", [], ["4"])
AGAIN = attempt("hard, hint", ["7", "07"], ["5"])


def test_right_with_the_hint_is_preferred_to_wrong_without_it():
    """Two right ones for three wrong ones: two pairs, and the prompt has no hint."""
    learnt = lesson([SOLVED, FAILED, WITHOUT_HINT], [(FAILED, AGAIN)], GuidedDpo(), 0)
    assert learnt.pairs == [Pair("hard", "7", "1"), Pair("hard", "07", "2")]
    assert learnt.counts == {
        "problems/tried": 3,
        "problems/failed": 2,
        "problems/retried": 1,
        "problems/rescued": 1,
        "pairs/found": 2,
        "sft/examples": 1,  # a fifth of four, rounded
        "sampled/completions": 6 + 4 + 2 + 4,
        "sampled/tokens": 160,
    }


def test_an_answer_that_was_begun_keeps_its_beginning():
    hint = {"hint": "{question}<{hint}", "continued": True}
    again = attempt("hard<1+", ["6=7"])
    learnt = lesson([SOLVED, FAILED], [(FAILED, again)], GuidedDpo(**hint), 0)
    assert learnt.pairs == [Pair("hard", "<1+6=7", "1")]


def test_a_share_of_the_right_tries_is_shown_in_each_epoch_once():
    half = GuidedDpo(sft_share=0.5, sft_epochs=3)
    learnt = lesson([SOLVED, FAILED], [(FAILED, AGAIN)], half, 4)
    assert len(learnt.examples) == 6
    assert set(learnt.examples[:2]) == set(learnt.examples[2:4]) == set(learnt.examples[4:])
    assert set(learnt.examples) < {("easy", text) for text in SOLVED.right}
    assert len(set(learnt.examples)) == 2
    assert lesson([SOLVED], [(FAILED, AGAIN)], half, 4).examples == learnt.examples
    others = {tuple(lesson([SOLVED], [(FAILED, AGAIN)], half, seed).examples) for seed in range(9)}
    assert len(others) > 1
    assert lesson([SOLVED], [(FAILED, AGAIN)], GuidedDpo(sft_share=0), 4).examples == []


@pytest.mark.parametrize(
    ("retried", "said"),
    [
        ([], "of 1 problems that were tried none was failed and has a hint"),
        ([(FAILED, attempt("hard, hint", [], ["5"]))], "of 1 failed problems .* first 2 lines"),
        ([(attempt("hard"), AGAIN)], "to prefer to a wrong one"),
    ],
)
def test_nothing_to_prefer_is_refused_with_the_reason(retried, said):
    with pytest.raises(TrainingError, match=said):
        lesson([SOLVED], retried, GuidedDpo(), 0)
