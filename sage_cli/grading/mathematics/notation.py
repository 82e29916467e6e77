"""The one notation that every answer is brought to: the table STEPS, its words, its characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from html import unescape
from itertools import pairwise
from math import isfinite
from typing import NamedTuple
from unicodedata import decimal, normalize

from sage_cli.grading.mathematics.english import words

FUNCTIONS = words(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth ln log exp sqrt cis "
    "gcd lcm"
)
_SYNONYMS = {
    "tg": r"\tan ",
    "ctg": r"\cot ",
    "cotg": r"\cot ",
    "cosec": r"\csc ",
    "lg": r"\log_{10} ",
    "arctg": r"\arctan ",
    "arcctg": r"\arccot ",
    "asin": r"\arcsin ",
    "acos": r"\arccos ",
    "atan": r"\arctan ",
    "overrightarrow": r"\vec ",
}

_CHARACTERS = {
    "−": "-",
    "–": "-",
    "—": "-",
    "‐": "-",
    "‑": "-",
    "×": "*",
    "·": "*",
    "⋅": "*",
    "∙": "*",
    "÷": "/",
    "∕": "/",
    "⁄": "/",
    "√": r"\sqrt ",
    "µ": r"\mu ",
    "∏": r"\prod ",
    "∑": r"\sum ",
    "′": "'",
    "、": ", ",
    "。": ".",
    "⩾": "≥",
    "≧": "≥",
    "⩽": "≤",
    "≦": "≤",
    "º": "°",
    "˚": "°",
    "∧": " and ",
    "∩": r"\cap ",
    "∅": r"\emptyset ",
    "∠": r"\angle ",
    "∛": r"\sqrt[3]",
    "ℝ": r"\mathbb{R}",
    "\u200b": "",
    "\u2060": "",
    "\ufeff": "",
    "⟨": "(",
    "⟩": ")",
    "″": "''",
    "…": r"\ldots ",
    "✓": "",
    "✔": "",
    "∎": "",
    "•": "",
    "‒": "-",
    "∶": ":",
    "∖": r"\setminus ",
    "∉": r"\notin ",
    "∂": r"\partial ",
    "ℏ": r"\hbar ",
    "∜": r"\sqrt[4]",
    "ϕ": r"\varphi ",
    "ϵ": r"\varepsilon ",
    "ϑ": r"\vartheta ",
}
_LOWER_CASE = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega"
)
_LETTERS = "αβγδεζηθικλμνξρστυφχψω"
_GREEK = {letter: f"\\{name} " for letter, name in zip(_LETTERS, _LOWER_CASE.split(), strict=True)}
_GREEK |= {a.upper(): f"\\{_GREEK[a][1:].capitalize()}" for a in "γδθλξσφψ"}
_DIRECTIONS = dict.fromkeys(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F))), "")
_FRACTIONS = {
    fraction: r"\frac{{{}}}{{{}}}".format(*normalize("NFKC", fraction).split("⁄"))
    for fraction in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"
}
ONE_CHARACTER = str.maketrans(_CHARACTERS | _GREEK | _DIRECTIONS | _FRACTIONS)
"""What is no ASCII, and the ASCII or the single character that it becomes."""
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺⁽⁾ⁿⁱˣ", "0123456789-+()nix")
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₋₊₍₎ₙᵢⱼₖₘₓ", "0123456789-+()nijkmx")

_SYMBOLS = {
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "div": "/",
    "pm": "±",
    "mp": "∓",
    "le": "≤",
    "leq": "≤",
    "leqslant": "≤",
    "ge": "≥",
    "geq": "≥",
    "geqslant": "≥",
    "ne": "≠",
    "neq": "≠",
    "lt": "<",
    "gt": ">",
    "approx": "≈",
    "cup": "∪",
    "in": "∈",
    "infty": "∞",
    "pi": "π",
    "degree": "°",
    "lor": "∨",
    "vee": "∨",
    "land": " and ",
    "wedge": " and ",
    "lbrack": "[",
    "rbrack": "]",
    "lbrace": r"\{",
    "rbrace": r"\}",
    "varnothing": r"\emptyset ",
    "langle": "(",
    "rangle": ")",
    "prime": "'",
    "lvert": "|",
    "rvert": "|",
    "vert": "|",
    "mid": "|",
    "colon": ":",
    "backslash": r"\setminus ",
    "lVert": "‖",
    "rVert": "‖",
    "Vert": "‖",
    "quad": ", ",
    "qquad": ", ",
    "newline": ", ",
    **dict.fromkeys(words("dots cdots dotsc dotsb dotsm dotso hdots"), r"\ldots "),
}
DROPPED = words(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits boxed fbox "
    "thinspace enspace space mathbf mathit mathsf mathtt bm boldsymbol bf sf tt large Large LARGE "
    "huge Huge underline mathstrut checkmark blacksquare"
)
TEXTS = words("text textbf textit textrm textnormal mbox mathrm hbox operatorname")

GREEK = frozenset(
    "\\" + name
    for name in words(
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa "
        "lambda mu nu xi rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda "
        "Xi Pi Sigma Upsilon Phi Psi Omega hbar ell"
    )
)
ACCENTS = words(r"\dot \ddot \vec \hat \bar \overline \tilde")
_BACK = {
    "*": r"\cdot ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∪": r"\cup ",
    "∈": r"\in ",
    "∞": r"\infty ",
    "π": r"\pi ",
    "°": r"^{\circ}",
    "∨": r"\text{ or }",
    "%": r"\%",
}
AS_LATEX = str.maketrans(_BACK)

MAX_LENGTH = 2000
"""No final answer of any benchmark is longer; golds have fewer than 300 characters."""

_DOLLARS = re.compile(
    r"(?:\\\$|US\\?\$|\\text\{\\\$\}|^\$(?=[^$]*$))\s*(\d++(?:(?:[,.]|\{,\})\d++)*+)(?!\s*[A-Za-z])"
)
r"""\$5, and a $ before a number that no other closes: money, not LaTeX."""
_POINTED = re.compile(r"<([^<>≤≥=]*,[^<>≤≥=]*)>")
_CURRENCIES = {"€": "euro", "£": "pound", "₹": "rupee", "¥": "yen", "₩": "won", "¢": "cent"}
_AMOUNT = r"\d++(?:[ ,.]\d++)*+"
_MONEY = re.compile(rf"([€£₹¥₩¢])\s*({_AMOUNT})|({_AMOUNT})\s*\$?([€£₹¥₩¢])")
_WRAPPERS = [
    re.compile(rf"\s*{wrapper}\s*", re.DOTALL | re.IGNORECASE)
    for wrapper in (
        r"```(?:\w*\n)?(.*?)\n?\s*```",
        r"`([^`]*)`",
        r"\*([^*]+)\*",
        r"__?([^_]+)__?",
        r"""\{\s*["'](?:final_?)?(?:answer|ans|result|solution|output|value)["']\s*:([^{}\[\],]+)\}""",
        r'"([^"]*)"',
        r"'([^']*)'",
        r"“([^”]*)”",
    )
]
"""What is put around an answer: code, JSON of one field, quotes."""
_WRAPPED = frozenset("`*_{\"'“")
_TAG = re.compile(r"</?(?:b|i|em|strong|code|p|span|u|div|answer)\s*/?>", re.IGNORECASE)
_RAISED, _LOWERED = (
    re.compile(rf"<{tag}>([^<>]*)</{tag}>", re.IGNORECASE) for tag in ("sup", "sub")
)
_ENTITY = re.compile(r"&(?:nbsp|lt|gt|le|ge|ne|amp|quot|times|minus|#\d+);")
_COMMAND = re.compile(r"\\(?:\\|([A-Za-z]+)\s*|([(){}\[\],:; !$%]))")
_WORD = re.compile(r"(?<![\\A-Za-z])(?:np\.|math\.)?([A-Za-z]+)(?![A-Za-z])")
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺⁽⁾ⁿⁱˣ]+")
_LOW = re.compile(r"[₀₁₂₃₄₅₆₇₈₉₋₊₍₎ₙᵢⱼₖₘₓ]+")
_STYLED = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff\u2000-\u200a\u00a0\u202f\ufe62\ufe63]")
"""Full width, spaces, and the bold and italic letters of mathematics; ℂ and ① stay apart."""
_OVERLINED = re.compile(r"(?:\d\u0305)+")
_OVER = re.compile(r"\{([^{}]*)\\(over|choose)(?![A-Za-z])([^{}]*)\}")
_SPECIAL = re.compile(
    r"\\(?:\||mathrm|mathbf|operatorname|rm|bm|boldsymbol|(?:text)?color|[hv]?phantom|[hv]space|tag"
    r"|label|over|choose|vec|(?:wide)?hat|nabla|land|wedge|lor|vee)|[∧∨]"
)
_BOLD = r"\\(?:mathbf|boldsymbol|bm|bf)"
_ACCENT = r"\\(?:wide)?hat"
_UNIT = r"(?:\\[ij]math|[ijk])(?![A-Za-z])"
_UNIT_VECTOR = re.compile(
    rf"(?:{_BOLD}|{_ACCENT})\s*(?:{_UNIT}|\{{\s*(?:{_UNIT}|(?:{_BOLD}|{_ACCENT})\s*"
    rf"(?:{_UNIT}|\{{\s*{_UNIT}\s*\}}))\s*\}})"
)
r"""\hat{i}, \mathbf{i}, \hat{\imath} and \hat{\mathbf{i}}"""
_ARROW_UNIT = re.compile(r"\\(?:vec|overrightarrow)\s*\{?\s*([ijk])(?![A-Za-z])\s*\}?")
_UNIT_NAME = re.compile(r"(?<![A-Za-z])([ijk])(?:math)?(?![A-Za-z])")
_UPRIGHT = re.compile(r"\\(?:mathrm|operatorname|rm)\s*(?:\{\s*([eid])\s*\}|\s([eid])(?![A-Za-z]))")
_UNSEEN = re.compile(
    r"\\(?:color|[hv]?phantom|[hv]space|tag|label)\s*\{[^{}]*\}|\\textcolor\s*\{[^{}]*\}"
)
_PRIMES = re.compile(r"\^(?:\{ ?(('\s*)+)\}|'(?!'))")
_VECTOR = re.compile(r"\\(?:vec|hat|nabla|mathbf|bm|boldsymbol|overrightarrow)(?![A-Za-z])")
_TIMES = re.compile(r"(?<=[^\d\s])\s*(?:\\times(?![A-Za-z])|×)")
_LOGIC = re.compile(r"\\(?:land|wedge)(?![A-Za-z])|∧|(\\(?:lor|vee)(?![A-Za-z])|∨)")
_NO_LOGIC = re.compile(r"[\d=<>≤≥≠∈,]|\\(?:in|leq?|geq?|neq?|lt|gt|leqslant|geqslant)(?![A-Za-z])")
_TIMES_POWER = re.compile(r"(?<=\d) x 10(?=\^)")
_QUANTITY_AND_NEXT = re.compile(
    r"(?<![\w.])(\d[\d.]*(?:\\[ ,~])? ?(?:\\(?:text|mathrm) ?\{ ?)?(?:hour|hr|h|minute|min|feet"
    r"|foot|ft|yard|day|week|month|year|yr|pound|lb|dollar|degree|gallon|kg|km)s? ?\}?)"
    r"(?: |\\[ ,~])*(?=\d)"
)
"""The first of the two quantities of 2 hours 30 minutes."""
_POWER_OF_CODE = re.compile(r"(?<=[\w)}])\*\*(?=[\w({+-])")
_NEGATIVE_SPACE = re.compile(r"\\!\s*")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])|(?<=\d\^)o(?![A-Za-z]))")
_DERIVATIVE = re.compile(r"(?<![A-Za-z])(d[A-Za-z]?)/(d[A-Za-z])(?![A-Za-z])")
_BOX_AFTER_BOX = re.compile(r"\}[\s$]*\\(?:boxed|fbox)")
_SYSTEM = re.compile(
    r"(?<![(\[])(?<![(\[] )(?:\\left\s*\\\{\s*)?\\begin\s*\{(cases|aligned|array)\}"
    r"(?:\{[lcr]\})?([^&]*?)"
    r"\\end\s*\{\1\}(?:\s*\\right\s*\.)?"
)
"""Lines below each other, as of a system of equations; with columns it is something else."""
_ROW_END = re.compile(r"\\\\\s*\[[\d.]+ ?[a-z]{2}\]|\\cr(?![A-Za-z])")
_COMMAS = re.compile(r",*(∨),*|,{2,}")
_TEXT_OF_FUNCTION = re.compile(r"\\text\{\s*([a-z]+)\s*\}")
_OR = re.compile(r"\\text\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])")
_AND = re.compile(r",?\s*(?:\\text\{\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z]))")
_AND_IN_WORDS = re.compile(r"\\text\{([a-z ]+) and ?\} ?(\d)")
"""15 \\text{ chickens and } 15 \\text{ rabbits}"""
_TWO_COUNTS = re.compile(r"\\text\{ ?(\d+ [a-z ]+ and \d+ [a-z ]+?) ?\}")
_CONDITION = re.compile(r"[<>≤≥≠]")
_GROUPED = re.compile(r"(?<![\d.,A-Za-z^_{}])[1-9]\d{0,2}(?:,\d{3})+(?![\d{}]|,\d)")
_SPACED = re.compile(r"(?<![\d.A-Za-z^_])[1-9]\d{0,2}(?: \d{3})+(?!\d| \d)")
_APOSTROPHES = re.compile(r"(?<![\d.'A-Za-z^_])[1-9]\d{0,2}(?:'\d{3})+(?![\d'])")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\_])(?<!_\{)i(?![A-Za-z])")
"""Set apart, because Math-Verify takes the i of 5i for a variable and that of 5 i for a number."""
_ACCENTED = re.compile(r"(\\(?:d?dot|vec|hat|bar|tilde)) ?([A-Za-z])(?![A-Za-z])")
_CHOOSE = re.compile(
    r"(?:\{\}|^)[_^]\{?(\w+)\}?C_\{(\w+)\}|(?:\\text ?\{C\}|(?<![A-Za-z\\])C)"
    r"(?:_\{(\w+)\}\^\{?(\w+)\}?|\((\w+),(\w+)\)|(\^)\{?(\w+)\}?_\{(\w+)\})"
)
"""Ways of writing the number of subsets: of n and k, but in C^k_n of k and n."""
_NAMED_POINT = re.compile(r"[ABD-Z]\(")
_SUBSCRIPT = re.compile(r"_(\d+|[A-Za-z])(?![A-Za-z])")
_TIES_AFTER, _TIES_BEFORE = frozenset("+-*/=<>,:{([^_&["), frozenset("+-*/=<>,})]^_&.")
_OUTWARD_BEGIN = re.compile(r"(?:^|(?<=[∪∈∨, ])|(?<=setminus))\]")
_OUTWARD_END = re.compile(r"\[(?=$|[∪∨,]|\\setminus)")
_ABOUT = re.compile(r"\\sim(?![A-Za-z]) ?(?=-?[.\d])")
"""Before a number \\sim rounds; between figures it says that they are similar."""
_ENDLESS = re.compile(
    r"(?:\\text ?\{ ?)?\b(negative|minus|positive) infinity\b ?(?(1)\}?)", re.IGNORECASE
)
_PROVED = re.compile(
    r"[\s,.;]*(?:\\q?quad)?\s*(?:\\text\s*\{)?\s*(?<![A-Za-z])(?:Q\.\s?E\.\s?D\.?|QED)\s*\}?\s*\Z"
)
_USELESS_SPACE = re.compile(r"(?<![0-9A-Za-z.]) | (?![0-9A-Za-z.])")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


def gold_text(gold: object) -> str:
    """Return a gold as text: 27.0 is 27; empty for what is neither text nor a finite number."""
    if isinstance(gold, float) and not isfinite(gold):
        return ""  # JSON's NaN stands for a gold that is missing
    # pandas and JSON write whole numbers as 27.0 where a column has missing values; above 2^53 a
    # float is no longer that number
    if isinstance(gold, float) and gold.is_integer() and abs(gold) < 1e15:
        return str(int(gold))
    return str(gold).strip() if isinstance(gold, str | int | float) else ""


def in_digits_of(gold: str, text: str) -> str:
    """Return `text` with the digits 0 to 9 if the gold is written in others, as ٢٥."""
    if gold.isascii() or not _FOREIGN_DIGIT.search(gold):
        return text
    return _FOREIGN_DIGIT.sub(lambda m: str(decimal(m[0])), text)


def _without_markup(text: str) -> str:
    """`text` without code, quotes, JSON and HTML around the answer."""
    for wrapper in _WRAPPERS if text.lstrip()[:1] in _WRAPPED else ():
        if match := wrapper.fullmatch(text):
            text = match[1]
    text = text.replace(r"\pounds", "£")
    if "&" in text:
        text = _ENTITY.sub(lambda m: unescape(m[0]).replace("\u00a0", " "), text)
    if "<" in text:
        text = _RAISED.sub(r"^{\1}", _LOWERED.sub(r"_{\1}", _TAG.sub("", text)))
    return text


def _ascii(text: str) -> str:
    text = _MONEY.sub(lambda m: rf"{m[2] or m[3]}\text{{ {_CURRENCIES[m[1] or m[4]]}s}}", text)
    text = _SUPERSCRIPT.sub(lambda m: "^{" + m[0].translate(RAISED) + "}", text)
    text = _LOW.sub(lambda m: "_{" + m[0].translate(LOWERED) + "}", text)
    text = _OVERLINED.sub(lambda m: rf"\overline{{{m[0][::2]}}}", text)
    # only styled letters go through NFKC: applied to all, it would turn x² into x2 and ① into 1
    text = _STYLED.sub(lambda m: normalize("NFKC", m[0]), text.translate(ONE_CHARACTER))
    return text.translate(ONE_CHARACTER)


def _special_notation(text: str) -> str:
    r"""Return the text with one notation for \over, \choose, upright e, norms, p ∧ q, a × b."""
    crossed = _VECTOR.search(text)
    text = _UNIT_VECTOR.sub(_one_unit_vector, text)
    if len(set(_ARROW_UNIT.findall(text))) > 1:  # alone \vec{k} is a wave's vector
        text = _ARROW_UNIT.sub(_one_unit_vector, text)
    text = _UNSEEN.sub(" ", _UPRIGHT.sub(lambda m: m[1] or m[2], text)).replace(r"\|", "‖")
    if r"\over" in text or r"\choose" in text:
        # braces around it all, so that a \over without its own is found, too
        text = f"{{{text.strip(' $')}}}"
        # the innermost first: the pattern has no braces inside, and the text it leaves is a \frac,
        # which has none to be found again
        while over := _OVER.search(text):
            name = "frac" if over[2] == "over" else "binom"
            fraction = rf"\{name}{{{over[1].strip()}}}{{{over[3].strip()}}}"
            text = text[: over.start()] + fraction + text[over.end() :]
    # x = 1 \lor x = 2 joins two answers, p \lor q is one formula of logic: relations and digits
    # tell which
    if _LOGIC.search(text) and not _NO_LOGIC.search(text):
        text = _LOGIC.sub(lambda m: "⋁" if m[1] else "⋀", text)
    # beside vectors × is the cross product, which does not commute: a character that algebra isn't
    # asked about
    return _TIMES.sub("⨯", text) if crossed else text


def _one_unit_vector(match: re.Match[str]) -> str:
    letter = _UNIT_NAME.search(match[0])
    return rf"\hat{{{letter[1]}}}" if letter else match[0]


def _binomial(match: re.Match[str]) -> str:
    r"""Return a match of _CHOOSE as \binom{n}{k}; C_1^2 and C(1,2) are a power and a point."""
    top, bottom = [group for group in match.groups() if group and group != "^"]
    # the form C^k_n has k above n
    if match[7]:
        top, bottom = bottom, top
    # C_1^2 would be the subsets of 2 among 1: it is a name with an index and a power
    fewer = top.isdigit() and bottom.isdigit() and int(top) < int(bottom)
    if fewer or (match[5] and _NAMED_POINT.search(match.string)):
        return match[0]
    return rf"\binom{{{top}}}{{{bottom}}}"


def _arguments_in_braces(text: str) -> str:
    r"""\sqrt(2), \sqrt13 and \vec a as \sqrt{2}, \sqrt{13} and \vec{a}, which they mean."""
    if "\\" not in text:
        return text
    start = text.find(r"\sqrt(")
    while start >= 0:
        end = closing(text, start + 5)
        if end < 0:
            break
        text = f"{text[: start + 5]}{{{text[start + 6 : end]}}}{text[end + 1 :]}"
        start = text.find(r"\sqrt(", start + 5)
    text = _ACCENTED.sub(r"\1{\2}", text)
    return re.sub(r"\\sqrt ?(\[\w+\])? ?(\d+)", r"\\sqrt\1{\2}", text)


def _trimmed(text: str) -> str:
    text = text.strip(" ,")
    # 1, 2, ... goes on
    return text[:-1].rstrip(" ,") if text[-1:] == "." and text[-2:-1] != "." else text


def _one_line(text: str) -> str:
    """Lines as the items of a list, unless an operator or bracket ties them together."""
    lines = text.split("\n")
    if len(lines) == 1 or r"\begin" in text:
        return text
    lines = [line for line in map(str.strip, lines) if line]
    joined = lines[0] if lines else ""
    for last, line in pairwise(lines):
        tied = joined[-1] in _TIES_AFTER or line[0] in _TIES_BEFORE or joined.count("$") % 2
        tied = tied or not last.strip("$") or not line.strip("$")
        joined += (" " if tied else ", ") + line
    return joined


def _plain_characters(text: str) -> str:
    return text if text.isascii() else _ascii(text)


def _one_notation(text: str) -> str:
    return _special_notation(text) if _SPECIAL.search(text) else text


def _separated_boxes(text: str) -> str:
    several = text.count(r"\boxed") > 1
    return _BOX_AFTER_BOX.sub(r"},\\boxed", text) if several else text


def _lines_of_system(text: str) -> str:
    return _SYSTEM.sub(r"\2", _ROW_END.sub(r"\\\\", text))


def _stars(text: str) -> str:
    return _POWER_OF_CODE.sub("^", text).replace("**", "")


def _relations(text: str) -> str:
    return text.replace("!=", "≠").replace("<=", "≤").replace(">=", "≥").replace("==", "=")


def _quantities_apart(text: str) -> str:
    # what is longer is not an answer of two quantities, and the pattern is a slow one
    return _QUANTITY_AND_NEXT.sub(r"\1, ", text) if len(text) < 100 else text


def _commands(text: str) -> str:
    return unwrapped(_trimmed(_COMMAND.sub(_one_command, text).replace("$", "").replace("~", " ")))


def _thousands(text: str) -> str:
    # in brackets, and with a blank as in 100, 200, they stay two numbers
    in_brackets = any(bracket in text for bracket in ("(", "[", r"\{", r"\langle"))
    return text if in_brackets else _GROUPED.sub(lambda m: m[0].replace(",", ""), text)


def _words(text: str) -> str:
    text = _ENDLESS.sub(_one_infinity, _TEXT_OF_FUNCTION.sub(_one_function, text))
    # one blank between two words, or the patterns behind this step try each of many
    return " ".join(_WORD.sub(_one_word, text).split())


def _one_infinity(match: re.Match[str]) -> str:
    return " ∞" if match[1].lower() == "positive" else " -∞"


def _conjunctions(text: str) -> str:
    text = _AND_IN_WORDS.sub(r"\\text{\1} and \2", text)
    if both := _TWO_COUNTS.fullmatch(text):
        text = both[1]
    # x>1 and x<3 is what both describe, 2 and 3 are two answers
    parts = _AND.split(text)
    return ("⋀" if all(map(_CONDITION.search, parts)) else ",").join(parts)


def _useless_spaces(text: str) -> str:
    return _USELESS_SPACE.sub("", " ".join(text.split()))


def _commas(text: str) -> str:
    return _COMMAS.sub(lambda m: m[1] or ",", text)


def _braces(text: str) -> str:
    return _SUBSCRIPT.sub(r"_{\1}", _arguments_in_braces(text))


def _without_frame(text: str) -> str:
    return unwrapped(unwrapped(_trimmed(text))).replace(r"\{\}", r"\emptyset")


def _primes(text: str) -> str:
    return _PRIMES.sub(lambda m: (m[1] or "'").replace(" ", ""), text)


def _inward_brackets(text: str) -> str:
    # only texts that begin or end so: turning brackets inside would break ]0,1[ ∪ [2,3]
    if text[:1] == "]" or text[-1:] == "[":
        text = _OUTWARD_END.sub(")", _OUTWARD_BEGIN.sub("(", text))
    pointed = _POINTED.fullmatch(text)
    return f"({pointed[1]})" if pointed else text


def _thousands_apart(text: str) -> str:
    return _trimmed(_SPACED.sub(lambda m: m[0].replace(" ", ""), text))


class Step(NamedTuple):
    """A step of the normalisation: its name, a text that it needs, and what it does."""

    name: str
    mark: str
    apply: Callable[[str], str]


STEPS = (
    Step("code, quotes, JSON and HTML around the answer", "", _without_markup),
    Step("Q.E.D.", "Q", partial(_PROVED.sub, "")),
    Step(r"\over, bold letters, norms, logic, cross products", "", _one_notation),
    Step("characters that are no ASCII", "", _plain_characters),
    Step("semicolons separate answers", ";", lambda text: text.replace(";", ", ")),
    Step("about 3: ~3", r"\sim", partial(_ABOUT.sub, "≈")),
    Step("a box behind another", r"\boxed", _separated_boxes),
    Step("lines of a system", r"\begin", _lines_of_system),
    Step("powers of Python, bold of Markdown", "**", _stars),
    Step("lines are answers", "\n", _one_line),
    Step("negative spaces", r"\!", partial(_NEGATIVE_SPACE.sub, "")),
    Step("commas in braces: 1{,}000", "{,}", lambda text: text.replace("{,}", ",")),
    Step("dots", "...", lambda text: text.replace("...", r"\ldots ")),
    Step("relations of code", "=", _relations),
    Step("degrees", "^", partial(_DEGREES.sub, "°")),
    Step("3 x 10^8", " x", partial(_TIMES_POWER.sub, " * 10")),
    Step("2 hours 30 minutes", " ", _quantities_apart),
    Step("dy/dx", "/d", partial(_DERIVATIVE.sub, r"\\frac{\1}{\2}")),
    Step("dollars", "$", partial(_DOLLARS.sub, r"\1\\text{ dollars}")),
    # from here on no command of layout is left, and $ is never money
    Step("commands", "", _commands),
    Step("1'000", "'", partial(_APOSTROPHES.sub, lambda m: m[0].replace("'", ""))),
    Step("1,000", ",", _thousands),
    Step("words: sin, pi, infinity", "", _words),
    Step("or", "or", partial(_OR.sub, "∨")),
    Step("and", "and", _conjunctions),
    Step("spaces that say nothing", "", _useless_spaces),
    Step("commas beside or", "∨", _commas),
    Step("commas beside each other", ",,", _commas),
    Step("braces of roots and subscripts", "", _braces),
    Step("subsets: C(n,k)", "C", partial(_CHOOSE.sub, _binomial)),
    Step("braces around it all, {} for the empty set", "", _without_frame),
    Step("primes", "'", _primes),
    Step("]0,1[ has its brackets turned outwards", "", _inward_brackets),
    # last, because a blank between figures may have separated two answers until here
    Step("1 000", "", _thousands_apart),
)
"""The steps of the normalisation, in this order: each relies on what the earlier ones brought to
one form. A step whose mark isn't in the text is left out, which makes short answers quick."""


@lru_cache(maxsize=8192)
def normalise(text: str) -> str:
    """Return the normal form of a gold or an answer of at most MAX_LENGTH characters."""
    # a backslash at the end escapes the bracket that a grader adds, and means nothing
    text = text.rstrip("\\ ")
    for step in STEPS:
        if step.mark in text:
            text = step.apply(text)
    return text


def latex(normal: str) -> str:
    """LaTeX that reads as the normal form does."""
    return _IMAGINARY.sub(" i ", normal).translate(AS_LATEX)


def unwrapped(text: str) -> str:
    """`text` without braces that enclose the whole of it."""
    while text.startswith("{") and text.endswith("}") and closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def closing(text: str, opening: int) -> int:
    r"""The position at which the brace or bracket at `opening` closes; -1 if it never does."""
    depth = 0
    for position in range(opening, len(text)):
        if text[position] in "{([":
            depth += 1
        elif text[position] in "})]":
            depth -= 1
            if depth == 0:
                return position
    return -1


def _one_command(match: re.Match[str]) -> str:
    name, character = match.groups()
    if character is not None:
        return {"{": r"\{", "}": r"\}", "%": "%", "$": ""}.get(character, " ")
    if name is None:
        return match[0] if r"\begin" in match.string else ", "
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if name in DROPPED:
        return " "
    if name in TEXTS:
        return r"\text"
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    if name in ("dbinom", "tbinom"):
        return r"\binom "
    return r"\frac " if name in ("dfrac", "tfrac", "cfrac") else f"\\{name} "


def _one_function(match: re.Match[str]) -> str:
    return _SYNONYMS.get(match[1], f"\\{match[1]} " if match[1] in FUNCTIONS else match[0])


def _one_word(match: re.Match[str]) -> str:
    word = match[1]
    if word in FUNCTIONS:
        return f"\\{word} "
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    if word == "pi":
        return "π"
    return "∞" if word in ("infinity", "inf", "oo") else match[0]
