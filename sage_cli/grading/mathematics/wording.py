"""Words: answers that are words, words around an answer, and words that change what they join."""

from __future__ import annotations

import re
from math import gcd

from sage_cli.grading.mathematics.notation import words

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


def _any_of(*alternatives: str) -> re.Pattern[str]:
    """Return the pattern of any of these words, which are separated by spaces."""
    either = "|".join(" ".join(alternatives).split())
    return re.compile(rf"(?<![A-Za-z])(?:{either})s?(?![A-Za-z])", re.IGNORECASE)


DENIES = _any_of(_DENYING)
CHANGES = _any_of(_DENYING, _COUNTING, _SMALL, _TENS)
"""Words that alter, count or deny what stands beside them."""
_LETTERS = re.compile(r"[^\W\d_π]+(?:[ .'-]+[^\W\d_π]+)*\.?")
_PRODUCT = re.compile(r"[b-df-hj-np-tv-z]{1,4}|[abcxyz]{1,3}")
"""Variables side by side, as in xy and mgh; other bare letters are a word."""
TEXT = re.compile(r"\\text ?\{((?:[^{}]|\^\{-?\d\})*)\}")
"""Words within a formula, or a unit with its exponents, as the notation writes them."""
_CODE = re.compile(r"(?=\w*[A-Z])(?!0[xbo])[A-Za-z\d]*[A-Za-z]\d[A-Za-z\d]*", re.ASCII)
"""Letters and digits in an order that counts: 1A2B, H2O."""
_WORD = re.compile(r"(?<![A-Za-z\d])[A-Za-z][a-z]{2,}(?![A-Za-z^_])")
_NO_WORD = re.compile(r"\\[A-Za-z]+(?: ?\{[^{}]*\})?|_\{\w+\}")
_ARTICLE = re.compile(r"(?:the|an?) (?=[^\W\d]{2})", re.IGNORECASE)


def is_word(text: str) -> bool:
    """Return True if bare letters are a word or several, and no product of variables."""
    if not _LETTERS.fullmatch(text):
        return False
    parts = re.findall(r"[^\W\d_]+", text)
    if "-" in text or "'" in text:  # AB-CD and kx-a are differences
        return not any(part.isupper() or _PRODUCT.fullmatch(part) for part in parts)
    letters = "".join(parts)
    return len(letters) > 1 and not _PRODUCT.fullmatch(letters)


_RELATION = re.compile(r"[<>=≤≥≠≈]+")
_CHOICE = re.compile(r"\(?([A-Z])\)?")
_CHOSEN = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer) ?)?\(?([A-Z])(?:\)|:|\.(?!\d)|(?<=[a-z] [A-Z]))(.*)"
)
_OTHER_CHOICE = re.compile(
    r"(?<![A-Za-z\\])[A-J](?![A-Za-z])|^ ?(?:is|are|was|isn|can|could|may|might|seems)\b"
    r"|\b(?:wrong|incorrect)\b|∨"
)
_DATE = re.compile(r"\d\d?([/.])\d\d?\1\d{4}")
_TIME = re.compile(r"(\d\d?)(?::([0-5]\d)(?::([0-5]\d))?)?(am|pm|noon|midnight)?", re.ASCII)
_BASED = re.compile(
    r"\(?(\d\w*|[A-F]+\w*(?=_\{?1[1-6])|[a-f]{2,}(?=_\{16\}))\)?"
    rf"(?:_\{{?| ?\(? ?base ?)(\d+|{_SMALL.replace(' ', '|')})[)}}]*"
)
_PREFIXED = re.compile(r"0(?:(b)|(o)|x)([\dA-Fa-f]+)")
_POINTS = re.compile(r"(\\(?:angle|triangle) )([A-Z]{2,})")


def same_wording(gold: str, answer: str) -> bool | None:
    """Return True or False if the normalised gold is no formula; None if it is one."""
    if choice := _CHOICE.fullmatch(TEXT.sub(r"\1", gold).strip()):
        return choice[1] == _chosen(answer)
    numerals = _digits(gold), _digits(answer)
    if numerals[0] or (numerals[1] and not _PREFIXED.fullmatch(answer)):
        return numerals[0] == numerals[1]
    if time := _time_of_day(gold):
        same = time == _time_of_day(answer)
        return same or (None if _may_be_ratio(gold) else False)
    if _RELATION.fullmatch(gold) or _DATE.fullmatch(gold):
        return gold == answer
    if points := _POINTS.fullmatch(gold):
        return answer in (gold, f"{points[1]}{points[2][::-1]}")
    if _CODE.fullmatch(gold):
        return _plain_word(gold) == _plain_word(re.sub(r"[_{}]", "", TEXT.sub(r"\1", answer)))
    spelled = [_WORD.findall(_NO_WORD.sub(" ", text)) for text in (gold, answer)]
    is_text = TEXT.fullmatch(gold) or is_word(TEXT.sub(r" \1 ", gold).strip())
    if is_text or any(map(is_word, spelled[0])):
        same = _plain_word(gold) == _plain_word(answer)
        # other words differ, even if they are made of the same letters; a list's may change places
        return same or (
            False if is_text or ("," not in gold and spelled[0] != spelled[1]) else None
        )
    return True if r"\text" in gold + answer and _plain_word(gold) == _plain_word(answer) else None


def _plain_word(text: str) -> str:
    """Words lose their case, their article and their spaces; a single letter keeps its case."""
    text = _ARTICLE.sub("", TEXT.sub(r"\1", text).strip(" {}"), count=1)
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)(?![A-Za-z])", "", text)
    text = re.sub(r"(?<=\d)(?:, ?| )(?!\d{3}(?!\d))(?=\d)", "_", text)  # 1, 2 are not 12
    return text if len(text) == 1 else re.sub(r"[\s!,]|\.(?!\d)", "", text).casefold()


def _chosen(answer: str) -> str | None:
    """Return the letter of a choice, with its text or without; None for several or none."""
    text = " ".join(TEXT.sub(r" \1 ", answer).split()).replace("( ", "(")
    if alone := _CHOICE.fullmatch(text):
        return alone[1]
    chosen = _CHOSEN.fullmatch(text)
    return chosen[1] if chosen and not _OTHER_CHOICE.search(chosen[2]) else None


def _digits(text: str) -> tuple[str, str] | None:
    """Return the digits and the base of 52_8, (52)_8, 52 (base 8) and 0x2A."""
    if prefixed := _PREFIXED.fullmatch(text):
        digits, base = prefixed[3], "2" if prefixed[1] else "8" if prefixed[2] else "16"
    elif numeral := _BASED.fullmatch(TEXT.sub(r"\1", text)):
        digits, base = numeral[1], str(SMALL.get(numeral[2], numeral[2]))
    else:
        return None
    return digits.lstrip("0").upper() or "0", base


def _time_of_day(text: str) -> tuple[int, ...] | None:
    """Return hours, minutes and seconds; 4:30 is before noon, as 4:30 a.m. is."""
    plain = re.sub(r"[\s.]", "", TEXT.sub(r"\1", text)).lower()
    match = _TIME.fullmatch({"noon": "12noon", "midnight": "12midnight"}.get(plain, plain))
    if match is None or not (match[2] or match[4]):
        return None
    hours, *others = (int(part or 0) for part in match.groups()[:3])
    if match[4]:
        hours = hours % 12 + (12 if match[4] in ("pm", "noon") else 0)
    return hours, *others


def _may_be_ratio(text: str) -> bool:
    """3:10 and 5:12:13 may be ratios; 3:05, 12:10 and 03:10 may not."""
    parts = text.split(":")
    if not all(part.isdigit() and part[0] != "0" for part in parts):
        return False
    return gcd(*map(int, parts)) == 1


_SPOKEN = re.compile(r"[A-Za-z][ ,:'(}]|^[#=∴⇒→]|\(")
_REMARK = re.compile(
    r",? ?\\text ?\{ ?for (?:all|every|any|each) ?\}[^=<>≤≥]*$"
    r"|(?<=^yes), ?[a-z]+ (?:is|are|do|does|can)$"
    r"|(?<=^no), ?[a-z]+ (?:is|are|do|does|can)(?: ?not|n't)$"
    r"| ?(?:\\text ?\{ ?)?(?<!^)\((?:since|because|about|approximately|roughly|i\.e\.)[ ,}]"
    r"[^()]*\)$",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?:(?:so|thus|hence|therefore|finally|then)\b[ ,]*|#+ ?|=(?=.)|(?:in )?the year (?=\d)"
    r"|(?:we|i) (?:get|have|find|obtain) |there (?:is|are|were|will be) |exactly "
    r"|(?:a |in )?total (?:of )?(?=\d)|(?:\\(?:therefore|Rightarrow|implies)|[∴⇒→]) ?)+",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?P<subject>[A-Za-z][A-Za-z -]*?)"
    r"(?:(?:'s| (?:is|are|was|were|equals)(?![A-Za-z']))(?: equal to)?:? ?"
    r"| (?:has|have|had|makes?|made|takes?|took|costs?|needs?|gets?|got)(?= ?(?:exactly )?[\d\\$-])"
    r"|(?P<label>: ?))(?:exactly )?"
    r"(?P<answer>.+)"
)
_PREDICATE = re.compile(
    r"(?P<answer>\S+) (?:is|was) (?:the|an?|my|our) (?!second)(?P<rest>[A-Za-z -]+)"
)
_LABELS = words("answer ans result solution total sum value number amount conclusion")
_SUBJECTS = _LABELS | words("it this that he she they")


def stated(text: str) -> str:
    """Return the answer that a normalised sentence gives, as 27 for `The answer is 27`.

    Text that is no such sentence is returned as it is, and so is one with a word that changes
    the answer, as in `The wrong answer is 27`.
    """
    if not _SPOKEN.search(text):
        return text
    text = _OPENING.sub("", _REMARK.sub("", text), count=1)
    plain = text
    if text.startswith(r"\text{"):
        plain = " ".join(TEXT.sub(r" \1 ", text, count=1).split())
    predicate = _PREDICATE.fullmatch(plain)
    if predicate and predicate["answer"].lower() not in _SUBJECTS:
        return text if CHANGES.search(predicate["rest"]) else predicate["answer"]
    sentence = _SENTENCE.fullmatch(plain)
    if sentence is None:
        return text
    subject, _, measure = sentence["subject"].partition(" in ")
    if DENIES.search(subject) or CHANGES.search(measure):
        return text
    if sentence["label"] and _LABELS.isdisjoint(subject.lower().split()):
        return text
    return (f"{subject}=" if len(subject) == 1 else "") + sentence["answer"]
