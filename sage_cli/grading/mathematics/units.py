"""Units behind a number: which words are units, and which of them mean the same."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import cache

from sage_cli.grading.mathematics.notation import words

_UNITS = {
    "meter": ("metre", "1 length"), "nanometer": ("nm", "1e-9 length"),
    "millimeter": ("mm millimetre", "1e-3 length"), "centimeter": ("cm centimetre", "1e-2 length"),
    "decimeter": ("dm decimetre", "1e-1 length"), "kilometer": ("km kilometre", "1e3 length"),
    "angstrom": ("", "1e-10 length"), "inch": ("in inches", "0.0254 length"),
    "foot": ("ft feet", "0.3048 length"), "yard": ("yd yds", "0.9144 length"),
    "mile": ("mi", "1609.344 length"), "acre": ("", "4046.8564224 length^2"),
    "liter": ("litre", "1e-3 length^3"), "milliliter": ("ml mL millilitre", "1e-6 length^3"),
    "gallon": ("gal", "1 gallon"),
    "kilogram": ("kg kgs", "1 mass"), "gram": ("", "1e-3 mass"), "milligram": ("mg", "1e-6 mass"),
    "pound": ("lb lbs", "0.45359237 mass"), "ounce": ("oz", "0.028349523125 mass"),
    "ton": ("tonne", "1 ton"), "mole": ("mol", "1 mole"),
    "second": ("sec secs", "1 time"), "minute": ("min mins", "60 time"),
    "hour": ("hr hrs", "3600 time"), "day": ("", "86400 time"), "week": ("", "604800 time"),
    "month": ("", "1 month"), "year": ("yr yrs", "1 year"),
    "hertz": ("Hz", "1 time^-1"), "kilohertz": ("kHz", "1e3 time^-1"),
    "mph": ("", "0.44704 length time^-1"), "kmh": ("kmph kph", "1000/3600 length time^-1"),
    "newton": ("", "1 mass length time^-2"), "pascal": ("Pa", "1 mass length^-1 time^-2"),
    "joule": ("", "1 mass length^2 time^-2"), "kilojoule": ("kJ", "1e3 mass length^2 time^-2"),
    "watt": ("", "1 mass length^2 time^-3"), "kilowatt": ("kW", "1e3 mass length^2 time^-3"),
    "ampere": ("amp", "1 current"), "coulomb": ("", "1 current time"), "farad": ("", "1 farad"),
    "volt": ("", "1 mass length^2 time^-3 current^-1"), "tesla": ("", "1 tesla"),
    "henry": ("", "1 henry"), "electronvolt": ("eV", "1 electronvolt"),
    "kelvin": ("", "1 kelvin"), "celsius": ("", "1 celsius"), "fahrenheit": ("", "1 fahrenheit"),
    "degree": ("° deg degs", "1 degree"), "radian": ("rad rads", "1 radian"),
    "%": ("percent percentage pct", "1 %"),
    "dollar": ("USD", "1 dollar"), "cent": ("", "1e-2 dollar"), "euro": ("EUR", "1 euro"),
    "unit": ("", "1 unit"), "people": ("person persons", "1 people"), "way": ("", "1 way"),
    "student": ("", "1 student"), "point": ("", "1 point"),
}  # fmt: skip
"""Canonical name -> other spellings, and the size in base dimensions (NIST SP 811, appendix B)."""
_SYMBOLS = {
    "m": "meter", "g": "gram", "s": "second", "h": "hour", "l": "liter", "L": "liter",
    "K": "kelvin", "A": "ampere", "V": "volt", "W": "watt", "J": "joule", "N": "newton",
    "F": "farad", "C": "coulomb", "T": "tesla", "H": "henry",
}  # fmt: skip
"""Single letters are units inside \\text{} alone: elsewhere they are variables."""
_NAMES = {word: name for name, (others, _) in _UNITS.items() for word in (name, *others.split())}
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_SCALES = {"C": "celsius", "F": "fahrenheit", "celsius": "celsius", "fahrenheit": "fahrenheit"}
"""What makes a temperature of the degree before it."""
_NOT_UNITS = words(
    "or and not no minus plus times over hundred thousand million billion trillion dozen half "
    "score mod pi infinity if only when about than less more approximately"
)
_WORD = re.compile(r"[A-Za-z]+")
_SHAPE = re.compile(r"(?:[A-Za-z°%]|\^\{?-?[1-9]\}?|[ ./*'-])*")
_TOKEN = re.compile(r"[A-Za-z]+|[°%/]|\^\{?-?[1-9]\}?")
_SECANT = re.compile(r"\\sec\s*$")


def read_unit(text: str) -> str | None:
    r"""The unit that `text` (normalised) is, "" for none at all, None where it is something else.

    It is a product of names with their exponents, as `kilometer hour^-1`. Words inside \text{} are
    units unless they change the number (million, or); bare ones only when they are known, because
    bare letters are variables.
    """
    text = _SECANT.sub("sec", text)  # the function has an argument
    bare = re.sub(r"\\text ?\{([^{}]*)\}", " ", text)
    inside = " ".join(re.findall(r"\\text ?\{([^{}]*)\}", text))
    plain = re.sub(r"\\text ?\{([^{}]*)\}", r" \1 ", text)
    if not _SHAPE.fullmatch(plain):
        return None
    if not all(_is_unit(word) for word in _WORD.findall(inside)):
        return None
    if not all(len(word) > 1 and _is_known(word) for word in _WORD.findall(bare)):
        return None
    powers = _powers(plain)
    if powers is None or (plain.strip() and not powers):
        return None
    return " ".join(name if n == 1 else f"{name}^{n}" for name, n in sorted(powers.items()))


def same_unit(gold: str, answer: str) -> bool:
    """Return False only where both are known units of another size or dimension."""
    sizes = _size(gold), _size(answer)
    return None in sizes or not gold or not answer or sizes[0] == sizes[1]


def _is_unit(word: str) -> bool:
    return word in _SYMBOLS if len(word) == 1 else word.lower() not in _NOT_UNITS


def _is_known(word: str) -> bool:
    return _name(word) in _UNITS or word in _POWERS or word == "per"


@cache
def _name(word: str) -> str:
    """Return the canonical name of a unit; a word that is none stands for itself."""
    if word in _SYMBOLS:
        return _SYMBOLS[word]
    forms = (word, word.removesuffix("s"), word.lower(), word.lower().removesuffix("s"))
    return next((_NAMES[form] for form in forms if form in _NAMES), word.lower())


def _powers(text: str) -> Counter[str] | None:
    """Name -> exponent in a product and quotient of units; None for a power of nothing."""
    factors: list[tuple[str, int]] = []
    sign, coming = 1, 1
    for token in _TOKEN.findall(text):
        scale = _SCALES.get(token) or _SCALES.get(token.lower())
        if token in ("/", "per"):
            sign = -1
        elif token.startswith("^") or token in ("squared", "cubed"):
            if not factors:
                return None
            name, exponent = factors[-1]
            power = _POWERS.get(token) or int(token.strip("^{}"))
            factors[-1] = (name, exponent * power)
        elif token in _POWERS:
            coming = _POWERS[token]
        elif scale and factors and factors[-1][0] == "degree":
            factors[-1] = (scale, factors[-1][1])
        else:
            factors.append((_name(token), sign * coming))
            coming = 1
    powers: Counter[str] = Counter()
    for name, exponent in factors:
        powers[name] += exponent
    return powers


@cache
def _size(unit: str) -> tuple[Fraction, frozenset[tuple[str, int]]] | None:
    """The factor and the base dimensions of a unit as `read_unit` gives it; None if unknown."""
    factor, dimensions = Fraction(1), Counter[str]()
    for name, exponent in map(_factor, unit.split()):
        if name not in _UNITS:
            return None
        number, *bases = _UNITS[name][1].split()
        top, _, bottom = number.partition("/")
        factor *= (Fraction(top) / Fraction(bottom or 1)) ** exponent
        for base, power in map(_factor, bases):
            dimensions[base] += power * exponent
    return factor, frozenset((base, n) for base, n in dimensions.items() if n)


def _factor(text: str) -> tuple[str, int]:
    """`meter^2` -> ("meter", 2)."""
    name, _, exponent = text.partition("^")
    return name, int(exponent or 1)
