"""Units behind a number: which words are units, and which of them mean the same."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from sage_cli.grading.mathematics.notation import words
from sage_cli.grading.mathematics.wording import CHANGES, TEXT, is_word

_UNITS = {
    "meter": "m metre", "angstrom": "", "inch": "in inches", "foot": "ft feet", "yard": "yd yds",
    "mile": "mi", "parsec": "pc", "acre": "", "liter": "l L litre", "gallon": "gal", "gram": "g",
    "ounce": "oz", "pound": "lb lbs GBP", "ton": "tonne", "mole": "mol", "second": "s sec secs",
    "minute": "min mins", "hour": "h hr hrs", "day": "", "week": "", "month": "",
    "year": "yr yrs", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J", "erg": "",
    "watt": "W", "calorie": "cal", "ampere": "A amp", "coulomb": "C", "farad": "F", "volt": "V",
    "tesla": "T", "henry": "H", "ohm": "", "electronvolt": "eV", "bit": "", "byte": "",
    "kelvin": "K", "celsius": "", "fahrenheit": "", "degree": "° deg degs", "radian": "rad rads",
    "arcminute": "arcmin arcmins", "arcsecond": "arcsec", "%": "percent percentage pct",
    "dollar": "USD", "cent": "", "euro": "EUR", "penny": "pence", "rupee": "INR", "yen": "JPY",
    "won": "KRW", "unit": "", "people": "person persons", "way": "", "student": "", "point": "",
}  # fmt: skip
"""Canonical name -> other spellings. Single letters outside \\text{} may be variables."""
_NAMES = {word: name for name, others in _UNITS.items() for word in (name, *others.split())}
_PREFIXES = {
    "pico": "p", "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "hecto": "h",
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T",
}  # fmt: skip
_PREFIXED = words(
    "meter parsec liter gram mole second year hertz newton pascal joule watt calorie ampere "
    "coulomb farad volt tesla henry ohm electronvolt bit byte kelvin"
)
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_SCALES = {"C": "celsius", "F": "fahrenheit", "celsius": "celsius", "fahrenheit": "fahrenheit"}
"""What makes a temperature of the degree before it."""
_SPEEDS = re.compile(r"(?<![A-Za-z])(?:(mph)|km/?h|kmph|kph)(?![A-Za-z])")
_COMMANDS = {r"\AA": " angstrom ", r"\Omega": "ohm", "^{''}": " arcsecond ", "''": " arcsecond "}
_FILLERS = re.compile(
    r"\b(?:in (?:total|all)|altogether|total|left|remaining|different|distinct|possible|positive|"
    r"whole|full|any)\b"
    r"|(?<=[A-Za-z]) each$|(?<=[A-Za-z]) of [A-Za-z ]+$"
)
_PER = re.compile(r"(?:^| )(?:an?|each|every) (?=[A-Za-z]{2})")
_TEMPERATURE = re.compile(r"° ?[CF]")
_QUOTIENT = re.compile(r"/|\bper\b")
_WORD = re.compile(r"[A-Za-z]+")
_SHAPE = re.compile(r"(?:[A-Za-z°%]|\^\{?-?[1-9]\}?|[ ./*'-])*")
_TOKEN = re.compile(r"[A-Za-z]+|[°%/]|\^\{?-?[1-9]\}?")
_SECANT = re.compile(r"\\sec\s*$")


def read_unit(text: str, *, spoken: bool = False) -> str | None:
    r"""The unit that `text` (normalised) is, "" for none at all, None where it is something else.

    It is a product of names with their exponents, as `kilometer hour^-1`, of which one may be an
    unknown noun. Words that change the number (thousands, in base eight) are no unit. Outside
    \text{} nouns and single letters may be variables: they count as units only if `spoken`.
    """
    if not text:
        return ""
    text = _written_out(text)
    plain = TEXT.sub(r" \1 ", text)
    if not _SHAPE.fullmatch(plain) or CHANGES.search(plain):
        return None
    plain, bare = (
        _PER.sub(" per ", _FILLERS.sub(" ", part)) for part in (plain, TEXT.sub(" ", text))
    )
    for part in _QUOTIENT.split(plain):
        unknown = [word for word in _WORD.findall(part) if not _is_known(word)]
        if len(unknown) > 1 or not all(map(is_word, unknown)):
            return None
    letters = _WORD.findall(_TEMPERATURE.sub("", bare))
    if "K" in letters:  # thousands, or kelvin
        return None
    if not spoken and any(len(word) == 1 or not _is_known(word) for word in letters):
        return None
    powers = _powers(plain)
    if powers is None or (plain.strip() and not powers):
        return None
    return " ".join(name if n == 1 else f"{name}^{n}" for name, n in sorted(powers.items()))


def _written_out(text: str) -> str:
    """The unit with its commands as words and without brackets around it."""
    text = _SECANT.sub("sec", text.replace("per cent", "percent"))  # the function has an argument
    text = _SPEEDS.sub(lambda m: ("mile" if m[1] else "kilometer") + " per hour", text)
    if "\\" not in text and text[:1] not in tuple("[({'^"):
        return text
    text = re.sub(r"\\mu ?(\\text ?\{)? ?(?=[A-Za-z])", r"\1micro", text)
    for command, word in _COMMANDS.items():
        text = text.replace(command, word)
    text = re.sub(r"^\s*(?:\[(.*)\]|\((.*)\))$", r"\1\2", text)
    return re.sub(r"(?<![A-Za-z^_ ])\{ ?([A-Za-z]*) ?\}", r"\\text{\1}", text)


def same_unit(gold: str, answer: str) -> bool:
    """Return False only where both are known units of other names."""
    return gold == answer or not all(
        unit and all(_is_unit(name.partition("^")[0]) for name in unit.split())
        for unit in (gold, answer)
    )


def _is_known(word: str) -> bool:
    return _is_unit(_name(word)) or word in _POWERS or word == "per"


def _is_unit(name: str) -> bool:
    return name in _UNITS or any(name.removeprefix(prefix) in _PREFIXED for prefix in _PREFIXES)


@lru_cache(maxsize=4096)
def _name(word: str) -> str:
    """Return the canonical name of a unit; a word that is none stands for itself."""
    lower = word.lower() if len(word) > 1 else word
    for form in (word, word.removesuffix("s"), lower, lower.removesuffix("s")):
        if form in _NAMES:
            return _NAMES[form]
        for prefix, symbol in _PREFIXES.items():
            for begin in (prefix, symbol):
                unit = _NAMES.get(form.removeprefix(begin))
                if form.startswith(begin) and unit in _PREFIXED:
                    return prefix + unit
    return word.lower()


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
