"""Units behind a number: which words are units, and which of them mean the same."""

from __future__ import annotations

import re

from sage_cli.grading.mathematics.vocabulary import words

_SYNONYMS = {
    "degree": "° deg degs degrees", "%": "percent percentage pct", "millimeter": "mm millimetre",
    "centimeter": "cm centimetre", "decimeter": "dm", "meter": "metre", "kilometer": "km kilometre",
    "inch": "inches", "foot": "ft feet", "yard": "yd yds", "mile": "mi", "gram": "",
    "kilogram": "kg kgs", "milligram": "mg", "pound": "lb lbs", "ounce": "oz", "liter": "litre",
    "milliliter": "ml mL millilitre", "second": "sec secs", "minute": "min mins", "hour": "hr hrs",
    "day": "", "week": "", "month": "", "year": "yr yrs", "cent": "", "dollar": "dollars USD",
    "unit": "", "mph": "", "kmh": "kmph", "radian": "rad rads", "kelvin": "", "joule": "",
    "newton": "", "watt": "", "volt": "", "angstrom": "", "gallon": "gal", "acre": "",
    "square": "sq", "cubic": "cu", "per": "", "people": "", "way": "", "student": "", "point": "",
    "hertz": "Hz", "kilohertz": "kHz", "nanometer": "nm", "electronvolt": "eV", "mole": "mol",
}  # fmt: skip
_NAMES = {word: name for name, others in _SYNONYMS.items() for word in (name, *others.split())}
_NOT_UNITS = words(
    "or and not no minus plus times over hundred thousand million billion trillion dozen half "
    "score squared cubed mod pi infinity if only when about than less more approximately"
)
_SYMBOLS_IN_TEXT = words("m g s h l L K A V W J N F C T H")
_WORD = re.compile(r"[A-Za-z]+")
_SHAPE = re.compile(r"(?:[A-Za-z°%]|\^\{?-?[1-9]\}?|[ ./*'-])*")


def read_unit(text: str) -> str | None:
    r"""The unit that `text` (normalised) is, "" for none at all, None where it is something else.

    Words inside \text{} are units unless they change the number (million, or); bare ones only when
    they are known, because bare letters are variables.
    """
    bare = re.sub(r"\\text ?\{([^{}]*)\}", " ", text)
    inside = " ".join(re.findall(r"\\text ?\{([^{}]*)\}", text))
    plain = re.sub(r"\\text ?\{([^{}]*)\}", r" \1 ", text)
    if not _SHAPE.fullmatch(plain):
        return None
    if not all(_is_unit(word) for word in _WORD.findall(inside)):
        return None
    if not all(
        word in _NAMES or _singular(word) in _NAMES for word in _WORD.findall(bare) if len(word) > 1
    ):
        return None
    if any(len(word) == 1 for word in _WORD.findall(bare)):
        return None
    unit = " ".join(_canonical(plain))
    return unit if unit or not plain.strip() else None


def same_unit(one: str, other: str) -> bool:
    """False only where both are known units and differ."""
    known = all(word.split("^")[0] in _SYNONYMS for word in (one + " " + other).split())
    return not one or not other or not known or one == other


def _is_unit(word: str) -> bool:
    return word in _SYMBOLS_IN_TEXT if len(word) == 1 else word.lower() not in _NOT_UNITS


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") else word


def _canonical(text: str) -> list[str]:
    words: list[str] = []
    power = ""
    for token in re.findall(r"[A-Za-z]+|[°%]|\^\{?-?[1-9]\}?", text):
        if token.startswith("^"):
            if words and "^" not in words[-1]:
                words[-1] += "^" + token[1:].strip("{}")
            continue
        name = _NAMES.get(token) or _NAMES.get(_singular(token)) or token.lower()
        if name in ("square", "cubic"):
            power = "^2" if name == "square" else "^3"
            continue
        words.append(name + power)
        power = ""
    return words
