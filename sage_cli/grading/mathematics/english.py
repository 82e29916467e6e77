"""The English words that number, change or deny what stands beside them."""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL = {word: number for number, word in enumerate(_SMALL.split())}
TENS = {word: 10 * number for number, word in enumerate(_TENS.split(), start=2)}
_DENYING = (
    "not no never none neither nor cannot isn aren wasn doesn if unless except without maybe "
    "perhaps possibly probably wrong incorrect false untrue invalid impossible rejected negative "
    "opposite reciprocal inverse half twice double triple doubled tripled halved negated guess"
)
_COUNTING = (
    "or and but only when is are was were be been am minus plus times over under than less more "
    "fewer greater least most below above between before after ago by to from into out about "
    "around approximately almost nearly roughly halves quarter dozen pair couple score gross lakh "
    "crore bn mil mio grand hundred thousand myriad [a-z]*illion permille mille basis ppm "
    "micro mod modulo remainder binary octal hexadecimal hex factorial choose root power conjugate "
    "added subtracted multiplied divided pi infinity "
    r"(?<!of\s)(?-i:AD|BCE?|CE) googol(?:plex)? (?!mani|scaf|blind)[a-z]*fold ish odd nope nah nay "
    "lie liar fake bogus hardly off discount(?:ed)? deficit short shortage shortfall loss losses "
    "lost decreased? reduction reduced debt recurring repeat repeated repeating periodic bis "
    "radical exponent mirrored reversed? inverted flipped rotated complement percentile logarithm "
    "[a-z]*(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|teenth|tieth|hundredth|thousandth|illionth)"
)
_LETTER_WORDS = re.compile(r"[^\W\d_π]+(?:[ .'-]+[^\W\d_π]+)*\.?")
_PRODUCT = re.compile(r"[b-df-hj-np-tv-z]{1,4}|[abcxyz]{1,3}")
"""Variables side by side, as in xy and mgh; other bare letters are a word."""
TEXT = re.compile(r"\\text ?\{((?:[^{}]|\^\{-?\d\})*)\}")
"""Words within a formula, or a unit with its exponents, as the notation writes them."""


def words(text: str) -> frozenset[str]:
    """Return the set of the words of `text`."""
    return frozenset(text.split())


def _any_of(*alternatives: str) -> re.Pattern[str]:
    """Return the pattern of any of these words, which are separated by spaces."""
    either = "|".join(" ".join(alternatives).split())
    return re.compile(rf"(?<![A-Za-z])(?:{either})s?(?![A-Za-z])", re.IGNORECASE)


DENIES = _any_of(_DENYING)
CHANGES = _any_of(_DENYING, _COUNTING, _SMALL, _TENS)
"""Words that alter, count or deny what stands beside them."""


def is_word(text: str) -> bool:
    """Return True if bare letters are a word or several, and no product of variables."""
    if not _LETTER_WORDS.fullmatch(text):
        return False
    parts = re.findall(r"[^\W\d_]+", text)
    if "-" in text or "'" in text:  # AB-CD and kx-a are differences
        return not any(part.isupper() or _PRODUCT.fullmatch(part) for part in parts)
    letters = "".join(parts)
    return len(letters) > 1 and not _PRODUCT.fullmatch(letters)
