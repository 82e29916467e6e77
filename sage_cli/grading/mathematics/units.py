"""Units as people write them, with their size in base units."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.english import CHANGES, TEXT, is_word, words

_UNITS = {
    "meter": ("m metre", "1 length"),
    "angstrom": ("", "1e-10 length"),
    "inch": ("in inches", "0.0254 length"),
    "foot": ("ft feet", "0.3048 length"),
    "yard": ("yd yds", "0.9144 length"),
    "mile": ("mi", "1609.344 length"),
    "parsec": ("pc", "1 parsec"),
    "acre": ("", "4046.8564224 length^2"),
    "hectare": ("ha", "1e4 length^2"),
    "liter": ("l L litre", "1e-3 length^3"),
    "gallon": ("gal", "1 gallon"),
    "quart": ("qt", "1/4 gallon"),
    "pint": ("pt", "1/8 gallon"),
    "cup": ("", "1/16 gallon"),
    "gram": ("g", "1e-3 mass"),
    "ounce": ("oz", "0.028349523125 mass"),
    "pound": ("lb lbs GBP", "1 pound"),
    "ton": ("tonne", "1 ton"),
    "mole": ("mol", "1 mole"),
    "second": ("s sec secs", "1 time"),
    "minute": ("min mins", "60 time"),
    "hour": ("h hr hrs", "3600 time"),
    "day": ("", "86400 time"),
    "week": ("", "604800 time"),
    "month": ("", "1 month"),
    "year": ("yr yrs", "12 month"),
    "hertz": ("Hz", "1 time^-1"),
    "mph": ("", "0.44704 length time^-1"),
    "kmh": ("kmph kph", "1000/3600 length time^-1"),
    "newton": ("N", "1 mass length time^-2"),
    "pascal": ("Pa", "1 mass length^-1 time^-2"),
    "joule": ("J", "1 mass length^2 time^-2"),
    "erg": ("", "1e-7 mass length^2 time^-2"),
    "watt": ("W", "1 mass length^2 time^-3"),
    "calorie": ("cal", "1 calorie"),
    "ampere": ("A amp", "1 current"),
    "coulomb": ("C", "1 current time"),
    "farad": ("F", "1 farad"),
    "volt": ("V", "1 mass length^2 time^-3 current^-1"),
    "tesla": ("T", "1 tesla"),
    "henry": ("H", "1 henry"),
    "ohm": ("", "1 ohm"),
    "electronvolt": ("eV", "1 electronvolt"),
    "bit": ("", "1 bit"),
    "byte": ("", "1 byte"),
    "kelvin": ("K", "1 kelvin"),
    "celsius": ("", "1 celsius"),
    "fahrenheit": ("", "1 fahrenheit"),
    "degree": ("° deg degs", "1 degree"),
    "radian": ("rad rads", "1 radian"),
    "arcminute": ("arcmin arcmins", "1/60 degree"),
    "arcsecond": ("arcsec", "1/3600 degree"),
    "%": ("percent percentage pct", "1 %"),
    "dollar": ("USD", "1 dollar"),
    "cent": ("", "1e-2 dollar"),
    "euro": ("EUR", "1 euro"),
    "penny": ("pence", "1e-2 pound"),
    "rupee": ("INR", "1 rupee"),
    "yen": ("JPY", "1 yen"),
    "won": ("KRW", "1 won"),
    "unit": ("", "1 unit"),
    "people": ("person persons", "1 people"),
    "way": ("", "1 way"),
    "student": ("", "1 student"),
    "point": ("", "1 point"),
}
"""Canonical name -> other spellings, and the size in base dimensions (NIST SP 811, appendix B).

Single letters outside \\text{} may be variables.
"""
_NAMES = {word: name for name, (others, _) in _UNITS.items() for word in (name, *others.split())}
_PREFIXES = {
    "pico": ("p", -12),
    "nano": ("n", -9),
    "micro": ("µ", -6),
    "milli": ("m", -3),
    "centi": ("c", -2),
    "deci": ("d", -1),
    "hecto": ("h", 2),
    "kilo": ("k", 3),
    "mega": ("M", 6),
    "giga": ("G", 9),
    "tera": ("T", 12),
}
_PREFIXED = words(
    "meter parsec liter gram mole second year hertz newton pascal joule watt calorie ampere "
    "coulomb farad volt tesla henry ohm electronvolt bit byte kelvin"
)
Dimensions = frozenset[tuple[str, int]]
"""Base dimensions with their exponents."""
_CUSTOMARY = words("mm cm km kg ml mL kN kW")
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_TEMPERATURES = {
    "C": "celsius",
    "F": "fahrenheit",
    "celsius": "celsius",
    "fahrenheit": "fahrenheit",
}
"""What makes a temperature of the degree before it."""
_COMMANDS = {r"\AA": " angstrom ", r"\Omega": "ohm", "^{''}": " arcsecond ", "''": " arcsecond "}
_FILLERS = re.compile(
    r"\b(?:in (?:total|all)|altogether|total|such|left|remaining|different|distinct|possible|"
    r"solar|positive|whole|full|any)\b"
    r"|(?<=[A-Za-z]) (?:old|long|wide|high|tall|deep|thick|apart|away)\b"
    r"|(?<=[A-Za-z]) each$|(?<=[A-Za-z]) of [A-Za-z ]+$"
)
_PER = re.compile(r"(?:^| )(?:an?|each|every) (?=[A-Za-z]{2})")
_TEMPERATURE = re.compile(r"° ?[CF]")
_QUOTIENT = re.compile(r"/|\bper\b")
_WORD = re.compile(r"[A-Za-z]+")
_SHAPE = re.compile(r"(?:[A-Za-z°%]|\^\{?-?[1-9]\}?|[ ./*'-])*")
_TOKEN = re.compile(r"[A-Za-z]+|[°%/]|\^\{?-?[1-9]\}?")
_OF_THE_SUN = re.compile(r"[MLR]_\{? ?(?:\\odot|\\text\{ ?sun ?\}) ?\}?")
_UNIT_GROUP = r"((?:[^{}\d]|\{[^{}]*\}|\^\d)+)"
_UNIT_FRACTION = re.compile(rf"\\frac ?\{{{_UNIT_GROUP}\}} ?\{{{_UNIT_GROUP}\}}")
r"""\frac{\text{km}}{\text{h}}"""
_SECANT = re.compile(r"\\sec\s*$")


def read_unit(text: str, *, spoken: bool = False) -> str | None:
    r"""The unit that `text` (normalised) is, "" for none at all, None where it is something else.

    It is a product of names with their exponents, such as `kilometer hour^-1`, of which one may be
    an unknown noun. Words that change the number (thousands, in base eight) are not a unit. Outside
    \text{} nouns and single letters may be variables: they count as units only if `spoken`.
    """
    if not text.strip():
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
    if not spoken and any(
        len(word) == 1 or not _is_known(word) or (not text.startswith(" ") and _is_symbol(word))
        for word in letters
    ):
        return None
    powers = _powers(plain)
    if powers is None or (plain.strip() and not powers):
        return None
    return " ".join(name if n == 1 else f"{name}^{n}" for name, n in sorted(powers.items()))


def _written_out(text: str) -> str:
    """The unit with its commands as words and without brackets around it."""
    text = _SECANT.sub("sec", text.replace("per cent", "percent"))  # the function has an argument
    if "\\" not in text and text[:1] not in tuple("[({'^"):
        return text
    text = _OF_THE_SUN.sub(r"\\text{solar}", text)
    text = re.sub(r"\\mu ?(\\text ?\{)? ?(?=[A-Za-z])", r"\1micro", text)
    for command, word in _COMMANDS.items():
        text = text.replace(command, word)
    text = _UNIT_FRACTION.sub(r"\1/\2", text)
    text = re.sub(r"^\s*(?:\[(.*)\]|\((.*)\))$", r"\1\2", text)
    return re.sub(r"(?<![A-Za-z^_ ])\{ ?([A-Za-z]*) ?\}", r"\\text{\1}", text)


def same_unit(gold: str, answer: str) -> bool:
    """Return False only where both are known units of another size or dimension."""
    sizes = unit_size(gold), unit_size(answer)
    return None in sizes or not gold or not answer or sizes[0] == sizes[1]


def _is_symbol(word: str) -> bool:
    """Return True for a prefix and a letter that may be two variables: mg, kT, mV; not for km."""
    return len(word) == 2 and word not in _NAMES and word not in _CUSTOMARY


def _is_known(word: str) -> bool:
    return is_unit(word) or word in _POWERS or word == "per"


def is_unit(word: str) -> bool:
    """Return True for the name of a unit whose size is known: kg, miles, hour."""
    return unit_size(_name(word)) is not None


@lru_cache(maxsize=4096)
def _name(word: str) -> str:
    """Return the canonical name of a unit; a word that is none stands for itself."""
    lower = word.lower() if len(word) > 1 else word
    for form in (word, word.removesuffix("s"), lower, lower.removesuffix("s")):
        if form in _NAMES:
            return _NAMES[form]
        for prefix, (symbol, _) in _PREFIXES.items():
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
        scale = _TEMPERATURES.get(token) or _TEMPERATURES.get(token.lower())
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


@lru_cache(maxsize=4096)
def unit_size(unit: str) -> tuple[Fraction, Dimensions] | None:
    """The factor and the base dimensions of a unit as `read_unit` gives it; None if unknown."""
    factor, dimensions = Fraction(1), Counter[str]()
    for name, exponent in map(_factor, unit.split()):
        for prefix, (_, power_of_ten) in _PREFIXES.items():
            if name.removeprefix(prefix) in _PREFIXED and name.startswith(prefix):
                name = name.removeprefix(prefix)
                factor *= Fraction(10) ** (power_of_ten * exponent)
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
