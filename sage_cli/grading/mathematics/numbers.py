"""Numbers as people write them, read exactly, and the units behind them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.english import CHANGES, SMALL, TENS, TEXT, is_word, words
from sage_cli.grading.mathematics.notation import closing, unwrapped

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
