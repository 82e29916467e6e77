"""Classes of tokens, by hand."""

from __future__ import annotations

import pytest

from sage_cli.analysis.texts import CLASSES, CONNECTIVES, classified


def test_a_sentence_token_by_token():
    pieces = [
        "<think>",
        "\n",
        "So",
        " the",
        " ans",
        "wer",
        " is",
        " 12",
        "*",
        "3",
        ".",
        " ",
        "\\",
        "frac",
    ]
    found = classified(pieces)
    assert [one.kind for one in found] == [
        "tag", "space", "connective", "word", "word", "rest of a word", "word", "number",
        "operator", "number", "punctuation", "space", "operator", "operator",
    ]  # fmt: skip
    assert [one.word for one in found if one.word] == ["so", "the", "answer", "is"]


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        # one character a token: the word is read from the text around it
        (list("so x"), ["connective", "rest of a word", "space", "word"]),
        (["don", "'t", " stop"], ["word", "rest of a word", "word"]),
        ([" x", "2", "=", "y"], ["word", "number", "operator", "word"]),
        (["�", "→", " –"], ["punctuation"] * 3),
        (["x,", " therefore"], ["word", "connective"]),
        (["<SOLUTION>", "7", "</SOLUTION>", "<|im_end|>"], ["tag", "number", "tag", "tag"]),
        ([], []),
    ],
)
def test_classes(pieces: list[str], kinds: list[str]):
    assert [one.kind for one in classified(pieces)] == kinds


def test_a_connective_counts_whole():
    assert [one.kind for one in classified(["some", "so"])] == ["word", "rest of a word"]
    assert all(word == word.lower() for word in CONNECTIVES)
    assert len(set(CLASSES)) == 8
