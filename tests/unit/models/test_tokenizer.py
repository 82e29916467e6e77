"""Tokenizers built from nothing, as written to a folder and loaded like anybody's."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.models.tokenizer import END, PAD, bpe_tokenizer, character_tokenizer, load_tokenizer

TAGS = ("<start_working_out>", "<end_working_out>", "<SOLUTION>", "</SOLUTION>")
TEXTS = [
    "Tom has 14 apples and 6 pears, how many pieces of fruit does Tom have?",
    "Ann had 25 marbles and gave 7 marbles away, how many marbles does Ann have?",
    "There are 1234 apples and 99 marbles in the box.",
] * 20
PRINTABLE = "".join(sorted(set(string.printable) - set(string.whitespace))) + " "


@pytest.fixture(scope="module")
def built():
    return {"characters": character_tokenizer(TAGS), "bpe": bpe_tokenizer(TEXTS, 320, TAGS)}


@pytest.fixture(scope="module")
def tokenizers(built, tmp_path_factory):
    """Saved, and loaded the way every model's tokenizer is."""
    loaded = {}
    for name, tokenizer in built.items():
        folder = tmp_path_factory.mktemp(name)
        tokenizer.save_pretrained(folder)
        loaded[name] = load_tokenizer(folder)
    return loaded


def ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", ["characters", "bpe"])
class TestBoth:
    def test_a_folder_gives_the_same_tokenizer_back(self, built, tokenizers, kind):
        before, after = built[kind], tokenizers[kind]
        text = f"47*63=? {TAGS[1]}Tom has{TAGS[2]}2961{TAGS[3]}"
        assert ids(after, text) == ids(before, text)
        assert len(after) == len(before)
        assert (after.eos_token, after.pad_token) == (END, PAD)
        assert after.padding_side == "left"
        assert after.eos_token_id != after.pad_token_id

    def test_tags_are_single_tokens_that_stay_when_special_ones_are_skipped(self, tokenizers, kind):
        tokenizer = tokenizers[kind]
        for tag in TAGS:
            assert len(ids(tokenizer, tag)) == 1
        text = f"7*8{TAGS[1]}{TAGS[2]}56{TAGS[3]}"
        with_end = [*ids(tokenizer, text), tokenizer.eos_token_id, tokenizer.pad_token_id]
        assert tokenizer.decode(with_end, skip_special_tokens=True) == text

    def test_digits_stand_apart(self, tokenizers, kind):
        tokenizer = tokenizers[kind]
        for number in ("1234", "99", "14"):
            assert len(ids(tokenizer, number)) == len(number)
        assert tokenizer.decode(ids(tokenizer, "14+6=20")) == "14+6=20"

    @settings(max_examples=50, deadline=None)
    @given(text=st.text(PRINTABLE, max_size=40))
    def test_printable_text_survives(self, tokenizers, kind, text):
        tokenizer = tokenizers[kind]
        assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=True) == text

    def test_prompt_and_completion_may_be_encoded_apart(self, tokenizers, kind):
        """What training encodes apart and generation meets as one text are the same tokens."""
        tokenizer = tokenizers[kind]
        prompt, completion = "47*63=?", f"S:47*60{TAGS[1]}"
        assert ids(tokenizer, prompt) + ids(tokenizer, completion) == ids(
            tokenizer, prompt + completion
        )


def test_bpe_learns_from_its_texts_and_characters_are_tokens(tokenizers, built):
    text = "S:47*60=2820;"
    assert len(ids(tokenizers["characters"], text)) == len(text)
    # 94 printable characters, the space, four tags, end and padding
    assert len(tokenizers["characters"]) == 94 + 1 + 4 + 2
    text = "naïve 数学 ½"
    assert tokenizers["bpe"].decode(ids(tokenizers["bpe"], text)) == text
    assert len(character_tokenizer(["", "<a>"])) == len(character_tokenizer(["<a>"]))
    tokenizer = tokenizers["bpe"]
    assert len(ids(tokenizer, "marbles")) < len("marbles")
    assert len(ids(tokenizer, "zyxwvut")) == len("zyxwvut")
    assert len(tokenizer) == 320 + 4 + 2
    again = bpe_tokenizer(TEXTS, 320, TAGS)
    assert again.get_vocab() == built["bpe"].get_vocab()
