"""Products of matrices, whose order matters."""

from __future__ import annotations

import re

from sage_cli.grading.mathematics.english import TEXT

_RAISED = re.compile(r"\}? ?\^(?:\{ ?(?:(-1)|T|\\top) ?\}|T|\\top)")
_NUMERATOR = re.compile(r"\\frac ?(\w|\{[^{}]*\}) ?(?:\w|\{[^{}]*\})")
_FACTOR = re.compile(r"\\[a-z]+|[\d.]+ᵀ?|(\\[A-Z][a-z]+|[A-Za-z()]|_\w+ |[ᵀ⁻+,=-])")
_TERM = re.compile(r"\)*[^()+,-]+\(*|[()]+")
_INVERSE = r"(?:[A-Z]|\\\w+)(?:_\w+ )?⁻"
_ORDERED = re.compile(rf"[A-Za-z ]ᵀ|[A-Z]\)ᵀ|\)ᵀ[\w(]|{_INVERSE}[\w(\\]|[A-Z ]\)?{_INVERSE}")
_BOLD = re.compile(r"(?:\\(?:mathbf|bm|bf|boldsymbol)\s*\{?\s*[A-Za-z\\][^\\=+-]*){2}")


def same_order(written: str, gold: str, answer: str) -> bool:
    """Return False if the gold is a product of matrices, and the answer is in another order."""
    gold, answer = _factors(gold), _factors(answer)
    # (AB)^{-1} is one beside A^{-1}B^{-1}, but not beside 1/(AB)
    if not (_ORDERED.search(gold + answer * (")⁻" in gold)) or _BOLD.search(written)):
        return True
    terms = [[sorted(_TERM.findall(side)) for side in text.split("=")] for text in (gold, answer)]
    sides = min(map(len, terms))  # the value suffices without the gold's name
    return sorted(terms[0][-sides:]) == sorted(terms[1][-sides:])


def _factors(text: str) -> str:
    """Return the letters with A^{T} as Aᵀ and A^{-1} as A⁻, but no scalars and denominators."""
    text = TEXT.sub("", text.replace(r"\text{T}", "T"))
    text = _RAISED.sub(lambda m: "⁻" if m[1] else "ᵀ", re.sub(r"_\{(\w+)\}", r"_\1 ", text))
    return "".join(_FACTOR.findall(_NUMERATOR.sub(r"\1", text)))
