"""Numbers as people write them, read exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.english import SMALL, TENS, words
from sage_cli.grading.mathematics.notation import closing, unwrapped
from sage_cli.grading.mathematics.units import read_unit, unit_size

_PLURALS = words(
    "children men women feet teeth mice geese oxen fish sheep deer dice data salmon shrimp species "
    "series aircraft radii foci loci nuclei formulae maxima minima extrema polyhedra criteria "
    "bacteria buses axes bases yuan baht rand kuna dong renminbi rpm atm bar torr db decibel amu "
    "dalton lux lumen psi mmhg au ly dyne bushel sun sol earth jupiter mag dex gauss siemens u "
    "becquerel person"
)
"""Nouns in the plural without an s, and units whose size isn't needed."""
_MEASURES = words(
    "increase gain profit interest rise growth markup chance probability tip tax height length "
    "width depth area perimeter volume weight mass distance time speed age circumference diameter "
    "radius angle"
)
"""What stands behind a unit: a 25% increase, 27 cm height."""
_NO_NOUN = re.compile(
    r"^(?:(?:over|under)?estimat|approx|exclu|exce[ep]|imagin|fail|miss|mistak|error|lack|seem|appear"
    r"|differ|remov|cancel|disput|alleg|suppos|presum|guess|doubt|theor|hypoth|pretend|den[iy]|plus"
    r"|minus|less|thus|as$|perhaps|besides|always|sometimes|backwards|upwards|downwards|others?$|yes$"
    r"|assum|suggest|claims|believ|hopes|reckon|sounds|looks|contradict|violat|refut|retract|withdr"
    r"|overrul|supersed|replac|becomes|changes|varies|depends|needs|requires|invalid|void)"
)
_ADJECTIVE = re.compile(r"(?:ed|ly|able|ible|ous|ary|ive|ate|ish|ful|ing|ent|ant|al)$")
_MAX_EXPONENT = 1000
_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_SIGNED = rf"[+-]? ?{_DECIMAL}"
_POWER = r"10\^(?:\{ ?([+-]?\d+) ?\}|\( ?([+-]?\d+) ?\)|([+-]?\d+))"
_TOP = rf"(?:\{{ ?({_SIGNED}) ?\}}|(\d))"
_FRACTION = re.compile(rf"\\frac ?{_TOP} ?{_TOP}", re.ASCII)
_OVER_UNIT = re.compile(
    rf"\\frac ?\{{ ?({_DECIMAL}) ?(\\text ?\{{[^{{}}]*\}}(?:\^\d)?)\}} ?"
    r"\{ ?(\\text ?\{[^{}]*\}(?:\^\d)?)\}",
    re.ASCII,
)
r"""\frac{45\text{ km}}{\text{h}}"""
_SLASHED = re.compile(rf"({_DECIMAL}) ?/ ?({_DECIMAL})", re.ASCII)
_MIXED_SLASHED = re.compile(r"(\d+) (\d+) ?/ ?(\d+)", re.ASCII)
_REPEATING = re.compile(
    r"(\d*)\.(\d*)(?:\\dot ?\{?(\d)\}?(\d*)\\dot ?\{?(\d)\}?"
    r"|\\(?:overline|bar|dot) ?(?:\{(\d+)\}|(\d))|\((\d+)\))",
    re.ASCII,
)
_ORDINAL = re.compile(r"(\d{1,15}) ?\^?\{? ?(?:\\text ?\{ ?)?(st|nd|rd|th) ?\}?\}?", re.ASCII)
_GOES_ON = re.compile(r"(\d*)\.(\d{1,40})(?:\.\.\.|\\[lc]?dots)", re.ASCII)
_PERIOD = re.compile(r"(\d*?)(?:(\d)\2{2,}|(\d{2,}?)\3+)", re.ASCII)
"""Digits of which the last, three times at least, or the last few, twice at least, repeat."""
_MINUTE = r"\^?\{?'\}?"
_SEXAGESIMAL = re.compile(
    rf"(\d+)° ?([0-5]?\d(?:\.\d+)?){_MINUTE}(?: ?([0-5]?\d(?:\.\d+)?)(?:{_MINUTE}{_MINUTE}|\"))?",
    re.ASCII,
)
_NEGATIVE = re.compile(r"^(?:negative|minus) ", re.IGNORECASE)
_CURRENCY = re.compile(r"^(USD|EUR|GBP|INR|JPY) ?(.*)")
_TENS = rf"({'|'.join(TENS)})(?:[ -]?({'|'.join(list(SMALL)[1:10])}))?"
_PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6}
_SPELLED = re.compile(
    rf"(?:{_TENS}|({'|'.join(SMALL)}))(?![A-Za-z]|-(?!(?:{'|'.join(_PARTS)})))",
    re.IGNORECASE,
)
_PART = re.compile(rf"[ -]({'|'.join(_PARTS)})s?(?![A-Za-z])", re.IGNORECASE)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALE = re.compile(rf" ?(\\text ?\{{ ?)?({'|'.join(_SCALES)})(?![A-Za-z-])", re.IGNORECASE)
_WITH_COMMA = re.compile(r"\s*([+-]?)(\d{1,3}(?:\.\d{3})+|\d+)(?:,|\{,\})(\d+)([^\d,.]*)", re.ASCII)
_PLAIN = re.compile(_DECIMAL, re.ASCII)
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d+)", re.ASCII)
_TIMES_TEN = re.compile(r" ?\* ?10(?![\d.^])")
_TIMES_POWER = re.compile(rf" ?\*? ?(?<=[* ]){_POWER}", re.ASCII)
_ONLY_POWER = re.compile(_POWER, re.ASCII)


def is_counted(number: Number, gold: str) -> bool:
    """Return True if what follows a number is counted by it, and doesn't take it back.

    27 marbles are 27; of 27 excluded, 27 imaginary, 27 approx nobody knows. A noun is a plural, one
    of a single thing or the gold's own; `per lap` counts nothing.
    """
    of_gold = gold.split()
    nouns = [
        name
        for name in number.unit.split()
        if "^-" not in name and name not in of_gold and unit_size(name) is None
    ]
    single = 0 < abs(number.value) <= 1
    measured = len(nouns) < len(number.unit.split())
    return all(
        not _NO_NOUN.search(noun)
        and (
            noun in _PLURALS
            or (measured and noun in _MEASURES)
            or (noun.endswith("s") and not noun.endswith(("ss", "us", "is")))
            or (single and not _ADJECTIVE.search(noun))
        )
        for noun in (name.partition("^")[0] for name in nouns)
    )


@dataclass(frozen=True)
class Number:
    """An exact value; `value` counts a percent sign, `unit` names it."""

    value: Fraction
    unit: str = ""

    @property
    def bare(self) -> Fraction:
        """The number as written, without the percent sign's hundredth."""
        return self.value * 100 if "%" in self.unit.split() else self.value


def within(gold: Fraction, answer: Fraction, tolerance: float | None) -> bool:
    """Return True if the answer equals the gold, up to a share of it if there is a tolerance."""
    return abs(gold - answer) <= Fraction(tolerance or 0) * abs(gold)


@lru_cache(maxsize=8192)
def read_number(text: str, *, spoken: bool = False) -> Number | None:
    """The number that the normalised `text` is, with at most a unit behind it; None otherwise.

    If it is `spoken`, a bare noun or letter may be the unit: 3 apples, 5 m.
    """
    text = _without_parentheses(text)
    sign = 1
    if text[:1].isalpha():
        text = _CURRENCY.sub(r"\2 \1", _NEGATIVE.sub("-", text, count=1))
    while text[:1] in ("+", "-"):
        sign, text = (-sign if text[0] == "-" else sign), text[1:].lstrip()
        if text[:1] in ("+", "-"):
            return None
        text = _without_parentheses(text)
    read = _unsigned(text)
    if read is None:
        return None
    value, rest = read
    unit = read_unit(rest, spoken=spoken)
    if unit is None:
        return None
    return Number(sign * value / (100 if "%" in unit.split() else 1), unit)


def _without_parentheses(text: str) -> str:
    text = unwrapped(text)
    if text.startswith(r"\text{") and closing(text, 5) == len(text) - 1:
        text = text[6:-1].strip()
    while text[:1] == "(" and closing(text, 0) == len(text) - 1:
        text = unwrapped(text[1:-1].strip())
    return text


def _unsigned(text: str) -> tuple[Fraction, str] | None:
    """Return the value of the longest number at the start, and what follows it."""
    if match := _FRACTION.match(text):
        top, bottom = match[1] or match[2], match[3] or match[4]
        return _ratio(top, bottom, text[match.end() :])
    if match := _OVER_UNIT.match(text):
        return Fraction(match[1]), f"{match[2]}/{match[3]}{text[match.end() :]}"
    if match := _REPEATING.match(text):
        period = "".join(digits for digits in match.groups()[2:] if digits)
        return _repeated(match[1], match[2], period), text[match.end() :]
    if (match := _GOES_ON.match(text)) and (digits := _PERIOD.fullmatch(match[2])):
        period = digits[2] or digits[3]
        return _repeated(match[1], digits[1], period), text[match.end() :]
    if match := _SEXAGESIMAL.match(text):
        degrees, minutes, seconds = (Fraction(part or 0) for part in match.groups())
        return degrees + minutes / 60 + seconds / 3600, f"°{text[match.end() :]}"
    if match := _MIXED_SLASHED.match(text):
        return _mixed(match[1], _ratio(match[2], match[3], text[match.end() :]))
    if match := _SLASHED.match(text):
        return _ratio(match[1], match[2], text[match.end() :])
    if (match := _ONLY_POWER.match(text)) and (power := _power_of_ten(match)) is not None:
        return power, text[match.end() :]
    if text[:1].isalpha():
        return _spelled(text)
    if ordinal := _ORDINAL.fullmatch(text):
        number = int(ordinal[1])
        return (Fraction(number), "") if ordinal[2] == _ending(number) else None
    if not (match := _PLAIN.match(text)):
        return None
    value, rest = Fraction(match[0]), text[match.end() :]
    if part_of_mixed := (_FRACTION.match(rest.lstrip()) if match[0].isdigit() else None):
        top, bottom = part_of_mixed[1] or part_of_mixed[2], part_of_mixed[3] or part_of_mixed[4]
        part = _ratio(top, bottom, rest.lstrip()[part_of_mixed.end() :])
        return _mixed(match[0], part)
    return _scaled(value, rest)


def _ending(number: int) -> str:
    """Return the ending of an ordinal: st of 21st, th of 11th."""
    teen = number % 100 // 10 == 1
    return "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _mixed(whole: str, part: tuple[Fraction, str] | None) -> tuple[Fraction, str] | None:
    """A mixed number has a whole part, and a fraction between 0 and 1."""
    if part is None or not int(whole) or not 0 < part[0] < 1:
        return None
    return int(whole) + part[0], part[1]


def _scaled(value: Fraction, rest: str) -> tuple[Fraction, str] | None:
    if (match := _SCIENTIFIC.match(rest)) and not rest[match.end() :][:1].isalpha():
        exponent = int(match[1])
        if abs(exponent) > _MAX_EXPONENT:
            return None
        return value * Fraction(10) ** exponent, rest[match.end() :]
    if match := _TIMES_POWER.match(rest):
        power = _power_of_ten(match)
        return None if power is None else (value * power, rest[match.end() :])
    if match := _TIMES_TEN.match(rest):
        return value * 10, rest[match.end() :]
    while match := _SCALE.match(rest):
        value *= 10 ** _SCALES[match[2].lower()]
        rest = (match[1] or "") + rest[match.end() :]
    return value, rest


def _spelled(text: str) -> tuple[Fraction, str] | None:
    """Return the value of the number word at the start, and what follows it."""
    if not (match := _SPELLED.match(text)):
        return None
    tens, unit, small = (part.lower() if part else "" for part in match.groups())
    number = TENS[tens] + SMALL.get(unit, 0) if tens else SMALL[small]
    rest = text[match.end() :]
    if (part := _PART.match(rest)) and (unit or not tens):  # twenty-third is an ordinal
        return Fraction(number, _PARTS[part[1].lower()]), rest[part.end() :]
    read = _scaled(Fraction(number), rest)
    if read and read[0] >= 100 and (lower := _spelled(read[1].lstrip())) and lower[0] < read[0]:
        return read[0] + lower[0], lower[1]
    return read


def with_point(text: str) -> str | None:
    """Return 2.74 for `2,74` and 1234.5 for `1.234,5`; None for a list or a thousands separator."""
    match = _WITH_COMMA.fullmatch(text)
    if match is None or (len(match[3]) == 3 and "." not in match[2] and match[2] != "0"):
        return None
    return f"{match[1]}{match[2].replace('.', '')}.{match[3]}{match[4]}"


def _power_of_ten(match: re.Match[str]) -> Fraction | None:
    exponent = int(next(group for group in match.groups() if group is not None))
    return Fraction(10) ** exponent if abs(exponent) <= _MAX_EXPONENT else None


def _ratio(top: str, bottom: str, rest: str) -> tuple[Fraction, str] | None:
    numerator, denominator = (Fraction(part.replace(" ", "")) for part in (top, bottom))
    return (numerator / denominator, rest) if denominator else None


def _repeated(whole: str, fixed: str, period: str) -> Fraction:
    """Return the number with these digits before the point, once behind it, and for ever."""
    repeating = Fraction(int(period), 10 ** len(period) - 1)
    return int(whole or "0") + (int(fixed or "0") + repeating) / Fraction(10 ** len(fixed))
