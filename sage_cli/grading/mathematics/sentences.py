"""The answer that a sentence gives."""

from __future__ import annotations

import re

from sage_cli.grading.mathematics.english import CHANGES, DENIES, TEXT, words
from sage_cli.grading.mathematics.notation import closing

_SPOKEN = re.compile(r"[A-Za-z][ ,:'(}]|^[#=∴⇒→]|\(")
_REMARK = re.compile(
    r",? ?\\text ?\{ ?for (?:all|every|any|each) ?\}[^=<>≤≥]*$"
    r"|(?<=^yes),? ?[a-z]+ (?:is|are|do|does|can|will|was|were|has|have)$"
    r"|(?<=^no),? ?[a-z]+ (?:is|are|do|does|can|will|was|were|has|have)(?: ?not|n't)$"
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
    """Return the answer that a normalised sentence gives, such as 27 for `The answer is 27`.

    Text that is not such a sentence is returned as it is, and so is one with a word that changes
    the answer, as in `The wrong answer is 27`.
    """
    if not _SPOKEN.search(text):
        return text
    if text.startswith(r"\text{") and closing(text, 5) == len(text) - 1:
        inside = text[6:-1].strip(" .")  # Yes, it is
        text = text if _REMARK.sub("", inside) == inside else inside
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
