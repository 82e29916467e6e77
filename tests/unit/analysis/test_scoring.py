"""A token's own text, by tokenizers that mark a word's beginning in different ways."""

from __future__ import annotations

from typing import Any

from sage_cli.analysis.scoring import Forward
from sage_cli.progress import Silent


class Pieces:
    """A tokenizer of given pieces; decoding drops what SentencePiece drops."""

    def __init__(self, *pieces: str) -> None:
        self.pieces, self.decoded = pieces, 0

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.pieces[token]

    def decode(self, ids: list[int]) -> str:
        self.decoded += 1
        (token,) = ids
        text = self.pieces[token].replace("Ġ", " ")
        return text.replace("▁", "")


def texts(tokenizer: Any, *ids: int) -> list[str]:
    forward = Forward(None, 1.0, Silent())  # type: ignore[arg-type]
    forward.__dict__["tokenizer"] = tokenizer
    return [forward.text(id_) for id_ in ids]


def test_a_words_space_stays_with_its_first_token():
    sentence_piece = Pieces("▁the", "re", "▁")
    assert texts(sentence_piece, 0, 1, 0, 2) == [" the", "re", " the", " "]
    assert sentence_piece.decoded == 3
    assert texts(Pieces("Ġthe", "re"), 0, 1) == [" the", "re"]
