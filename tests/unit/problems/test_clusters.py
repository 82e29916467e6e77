""""""

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.problems.clusters import (
    field_clusters,
    largest_cluster,
    masked_runs,
    problem_clusters,
    question_clusters,
)
from sage_cli.problems.problem import Problem

STORY = "Anna has {} apples and gives {} of them away. {}"


def test_questions_that_tell_one_story_with_other_numbers_are_one_cluster():
    other = {
        f"o{place}": f"A question about thing {word} alone."
        for place, word in enumerate(
            ("one", "two", "three", "four", "five", "six", "seven", "eight")
        )
    }
    asked = {
        "a": STORY.format(5, "3,000", "How many are left?"),
        "b": STORY.format(17, 2.5, "What is the whole?"),
    }
    clusters = question_clusters({**asked, **other})
    assert clusters["a"] == clusters["b"] == "a"
    assert len({clusters[name] for name in other}) == 8
    assert largest_cluster(clusters) == ("a", 2)


def test_a_question_joins_two_that_share_nothing():
    first, second = "a b c d e f g h", "q r s t u v w x"
    lonely = {f"l{place}": f"word{chr(97 + place)} " * 8 for place in range(14)}
    apart = {"1": first, "2": second, **lonely}
    assert len(set(question_clusters(apart).values())) == 16
    joined = question_clusters({**apart, "0": f"{first} and {second}", "9": "i j k l m n o p"})
    assert joined["1"] == joined["2"] == joined["0"] == "0"


def test_eight_words_make_a_run_and_seven_none():
    assert masked_runs("one two three four five six seven") == set()
    assert masked_runs("We pay 3.50 for 2 of the SAME") == {
        ("we", "pay", "#", "for", "#", "of", "the", "same")
    }


def test_a_phrase_that_joins_too_many_problems_is_an_error():
    asked = {
        str(place): f"Please answer with a whole number and nothing else: {place} x {place}"
        for place in range(10)
    }
    with pytest.raises(ConfigurationError, match="10 of 10 problems are one cluster"):
        question_clusters(asked)


def test_a_field_that_a_row_lacks_is_an_error():
    rows = [("p", {"level": 3, "id": "x"}), ("q", {"level": 0, "id": "y"})]
    assert field_clusters(rows, "level") == {"p": "3", "q": "0"}
    row = Problem("p", "mine", "What?", "1", {"level": 3, "origin": "mine.jsonl@1f"})
    assert problem_clusters([row], "level") == {"p": "3"}
    with pytest.raises(ConfigurationError, match="problem p has no field 'x'"):
        problem_clusters([row], "x")
    with pytest.raises(ConfigurationError, match="problem q has no field 'story'"):
        field_clusters([("p", {"story": "a"}), ("q", {"level": 1})], "story")
