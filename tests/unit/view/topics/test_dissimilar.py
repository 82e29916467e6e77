"""Dissimilar texts come first."""

from hypothesis import given
from hypothesis import strategies as st

from sage_cli.view.topics.problems import dissimilar_first


def test_equal_texts_come_last():
    # pairs of adjacent words: a b shares nothing with x y, and all with the second a b
    assert dissimilar_first(["a b", "a b", "x y"]) == [0, 2, 1]


def test_the_farthest_from_all_before_it_is_next():
    # {·a, ab, bc, c·} against {·a, ab, bd, d·}: 2 of 6, so 2/3 apart; against p q: 1 apart
    assert dissimilar_first(["a b c", "a b d", "p q"]) == [0, 2, 1]


@given(st.lists(st.text(max_size=30), max_size=12))
def test_every_text_has_its_place_once(texts):
    assert sorted(dissimilar_first(texts)) == list(range(len(texts)))
