"""The words of LaTeX and Unicode mathematics, and the one character or command each becomes.

At the end are answers that are words, words around an answer, and words that change what they join.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from html import unescape
from itertools import pairwise
from math import gcd, isfinite
from typing import NamedTuple
from unicodedata import decimal, normalize


def words(text: str) -> frozenset[str]:
    """Return the set of the words of `text`."""
    return frozenset(text.split())


FUNCTIONS = words(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth ln log exp sqrt cis "
    "gcd lcm"
)
_SYNONYMS = {
    "tg": r"\tan ", "ctg": r"\cot ", "cotg": r"\cot ", "cosec": r"\csc ", "lg": r"\log_{10} ",
    "arctg": r"\arctan ", "arcctg": r"\arccot ", "asin": r"\arcsin ", "acos": r"\arccos ",
    "atan": r"\arctan ", "overrightarrow": r"\vec ",
}  # fmt: skip

_CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "*", "·": "*", "⋅": "*",
    "∙": "*", "÷": "/", "∕": "/",
    "⁄": "/", "√": r"\sqrt ", "µ": r"\mu ", "∏": r"\prod ", "∑": r"\sum ", "′": "'", "、": ", ",
    "。": ".", "⩾": "≥", "≧": "≥", "⩽": "≤", "≦": "≤", "º": "°", "˚": "°", "∧": " and ",
    "∩": r"\cap ", "∅": r"\emptyset ", "∠": r"\angle ", "∛": r"\sqrt[3]", "ℝ": r"\mathbb{R}",
    "\u200b": "", "\u2060": "", "\ufeff": "", "⟨": "(", "⟩": ")",
    "″": "''", "…": r"\ldots ", "✓": "", "✔": "", "∎": "", "•": "",
    "‒": "-", "∶": ":", "∖": r"\setminus ",
    "∉": r"\notin ", "∂": r"\partial ", "ℏ": r"\hbar ", "∜": r"\sqrt[4]", "ϕ": r"\varphi ",
    "ϵ": r"\varepsilon ", "ϑ": r"\vartheta ",
}  # fmt: skip
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

SYMBOLS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤",
    "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "ne": "≠", "neq": "≠", "lt": "<",
    "gt": ">", "approx": "≈", "cup": "∪", "in": "∈", "infty": "∞", "pi": "π",
    "degree": "°", "lor": "∨", "vee": "∨", "land": " and ", "wedge": " and ", "lbrack": "[",
    "rbrack": "]", "lbrace": r"\{", "rbrace": r"\}",
    "varnothing": r"\emptyset ", "langle": "(", "rangle": ")", "prime": "'",
    "lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "colon": ":", "backslash": r"\setminus ",
    "lVert": "‖", "rVert": "‖", "Vert": "‖",
    "quad": ", ", "qquad": ", ", "newline": ", ",
    **dict.fromkeys(words("dots cdots dotsc dotsb dotsm dotso hdots"), r"\ldots "),
}  # fmt: skip
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
    "*": r"\cdot ", "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "∪": r"\cup ", "∈": r"\in ", "∞": r"\infty ", "π": r"\pi ",
    "°": r"^{\circ}", "∨": r"\text{ or }", "%": r"\%",
}  # fmt: skip
AS_LATEX = str.maketrans(_BACK)

_SYMBOL = re.compile(r"(?:\\[a-z]+ )?\\?[A-Za-z]+(?:_(?:\w|\{\w+\})|\^\{-1\})?'*(?:\([\w,.+-]*\))?")
_ARGUMENT = re.compile(r"_(?:\w|\{[^{}]*\})|(?<=[A-Za-z])\((?:[-+]?[\w.]++,?)+\)")
_INSIDE = re.compile(r"_(?:\w|\{[^{}]*\})|(?<=[A-Za-z])\([^()]*\)")
_QUANTITY = re.compile(r"(?:\\(?!sqrt)[A-Za-z]++|[A-Za-z{}|:/' ])+")
_FORMATTING = re.compile(
    r"\\(?:begin|end) ?\{[a-z]*\}|\\(?:frac|sqrt|[a-z]*(?:sin|cos|tan|cot|sec|csc)h?|ln|log|exp|"
    r"cis|max|min|binom|text|dot|ddot|vec|hat|bar|overline|langle|rangle)(?![A-Za-z])"
)
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_NEGATED = re.compile(r"\\(?:not|neg|lnot)(?![A-Za-z])|(?<![A-Za-z])(?:not|never)(?![A-Za-z])")
_NO_NAME = frozenset("<>≤≥≠≈,∨±%")


def is_symbol(text: str) -> bool:
    """Return True if `text` is one name, as x, x_1, f(3), AB, and no expression of several."""
    return _SYMBOL.fullmatch(text) is not None and not _NEGATED.search(text)


def is_quantity(text: str) -> bool:
    r"""Return True if `text` names one number in any form, as |AB|, A:B, \frac{a}{b}, P(X=2).

    Sums, powers and multiples don't: x+y=5 and x^2=4 are equations, not names for 5 and 4.
    """
    if is_symbol(text):
        return True
    rest = _INSIDE.sub("", text)
    return bool(_QUANTITY.fullmatch(rest) and _LETTER.search(rest) and not _NEGATED.search(rest))


def is_name(text: str) -> bool:
    """Return True if a member of an equation names a value, as x, f(3), m+n, AB; not x+1."""
    if text.startswith("(") and text.endswith(")"):
        return all(map(is_name, text[1:-1].split(",")))
    rest = _ARGUMENT.sub("", text)
    if not _LETTER.search(rest) or _NEGATED.search(rest):
        return False
    return not any(c.isdigit() or c in _NO_NAME for c in rest)


def defines(member: str, value: str) -> bool:
    """Return True if a member names `value` and isn't part of it: p(x) in p(x)=x^2."""
    # x(t) is not part of x_0+vt, whose x_0 is a name of its own
    names = re.sub(r"[A-Za-z]_(?:\d|\{\w+\})", "", value) if "(" in member else value
    return is_name(member) and not letters(_ARGUMENT.sub("", member)) & letters(names)


def letters(text: str) -> frozenset[str]:
    """Return the variables of an expression; e and i are numbers."""
    return frozenset(_LETTER.findall(_FORMATTING.sub(" ", text))) - {"e", "i"}


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


def gold_text(gold: object) -> str:
    """Return a gold as text: 27.0 is 27; empty for what is neither text nor a finite number."""
    if isinstance(gold, float) and not isfinite(gold):
        return ""  # JSON's NaN stands for a gold that is missing
    if isinstance(gold, float) and gold.is_integer() and abs(gold) < 1e15:
        return str(int(gold))
    return str(gold).strip() if isinstance(gold, str | int | float) else ""


_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


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
        text = f"{{{text.strip(' $')}}}"
        while over := _OVER.search(text):
            name = "frac" if over[2] == "over" else "binom"
            fraction = rf"\{name}{{{over[1].strip()}}}{{{over[3].strip()}}}"
            text = text[: over.start()] + fraction + text[over.end() :]
    if _LOGIC.search(text) and not _NO_LOGIC.search(text):
        text = _LOGIC.sub(lambda m: "⋁" if m[1] else "⋀", text)
    return _TIMES.sub("⨯", text) if crossed else text


def _one_unit_vector(match: re.Match[str]) -> str:
    letter = _UNIT_NAME.search(match[0])
    return rf"\hat{{{letter[1]}}}" if letter else match[0]


def _binomial(match: re.Match[str]) -> str:
    r"""Return a match of _CHOOSE as \binom{n}{k}; C_1^2 and C(1,2) are a power and a point."""
    top, bottom = [group for group in match.groups() if group and group != "^"]
    if match[7]:
        top, bottom = bottom, top
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
    # what is longer is no answer of two quantities, and the pattern is a slow one
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
    if name in SYMBOLS:
        return SYMBOLS[name]
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
_LETTER_WORDS = re.compile(r"[^\W\d_π]+(?:[ .'-]+[^\W\d_π]+)*\.?")
_PRODUCT = re.compile(r"[b-df-hj-np-tv-z]{1,4}|[abcxyz]{1,3}")
"""Variables side by side, as in xy and mgh; other bare letters are a word."""
TEXT = re.compile(r"\\text ?\{((?:[^{}]|\^\{-?\d\})*)\}")
"""Words within a formula, or a unit with its exponents, as the notation writes them."""
_CODE = re.compile(r"(?=\w*[A-Z])(?!0[xbo])[A-Za-z\d]*[A-Za-z]\d[A-Za-z\d]*", re.ASCII)
"""Letters and digits in an order that counts: 1A2B, H2O."""
_SPELLED_WORD = re.compile(r"(?<![A-Za-z\d])[A-Za-z][a-z]{2,}(?![A-Za-z^_])")
_NO_WORD = re.compile(r"\\[A-Za-z]+(?: ?\{[^{}]*\})?|_\{\w+\}")
_ARTICLE = re.compile(r"(?:the|an?) (?=[^\W\d]{2})", re.IGNORECASE)


_PROPERTIES = words("even odd prime composite rational irrational real complex imaginary natural")
_HAS_PROPERTY = re.compile(r"(?<=[a-z]) (?:number|integer|function)[ .]*$")
"""What an even number is beside the gold `even`."""


def is_word(text: str) -> bool:
    """Return True if bare letters are a word or several, and no product of variables."""
    if not _LETTER_WORDS.fullmatch(text):
        return False
    parts = re.findall(r"[^\W\d_]+", text)
    if "-" in text or "'" in text:  # AB-CD and kx-a are differences
        return not any(part.isupper() or _PRODUCT.fullmatch(part) for part in parts)
    letters = "".join(parts)
    return len(letters) > 1 and not _PRODUCT.fullmatch(letters)


_RELATION = re.compile(r"[<>=≤≥≠≈]+")
_CHOICE = re.compile(r"\(? ?([A-Z]) ?\)?|\[ ?([A-Z]) ?\]")
_CHOSEN = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer) ?)?\(?([A-Z])(?:\)|:|\.(?!\d)|(?<=[a-z] [A-Z]))(.*)"
)
_OTHER_CHOICE = re.compile(
    r"(?<![A-Za-z\\])[A-J](?![A-Za-z])|^ ?(?:is|are|was|isn|can|could|may|might|seems)\b"
    r"|\b(?:wrong|incorrect)\b|∨"
)
_DATE = re.compile(r"\d\d?([/.])\d\d?\1\d{4}")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_ISO_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
_WRITTEN_DATE = re.compile(
    rf"(?:(?:the )?(\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} (\d\d?)(?:st|nd|rd|th)?)"
    r"(?: (\d{4}))?",
    re.ASCII | re.IGNORECASE,
)
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
        return (choice[1] or choice[2]) == _chosen(answer)
    numerals = _digits(gold), _digits(answer)
    if numerals[0] or (numerals[1] and not _PREFIXED.fullmatch(answer)):
        return numerals[0] == numerals[1]
    if time := _time_of_day(gold):
        same = time == _time_of_day(answer)
        return same or (None if _may_be_ratio(gold) else False)
    if date := _calendar_date(gold):
        return date == _calendar_date(answer)
    if _RELATION.fullmatch(gold) or _DATE.fullmatch(gold):
        return gold == answer
    if points := _POINTS.fullmatch(gold):
        return answer in (gold, f"{points[1]}{points[2][::-1]}")
    if _CODE.fullmatch(gold):
        return _plain_word(gold) == _plain_word(re.sub(r"[_{}]", "", TEXT.sub(r"\1", answer)))
    spelled = [_SPELLED_WORD.findall(_NO_WORD.sub(" ", text)) for text in (gold, answer)]
    is_text = TEXT.fullmatch(gold) or is_word(TEXT.sub(r" \1 ", gold).strip())
    if is_text or any(map(is_word, spelled[0])):
        if _plain_word(gold) in _PROPERTIES:
            answer = _HAS_PROPERTY.sub("", TEXT.sub(r"\1", answer))
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
        return alone[1] or alone[2]
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


def _calendar_date(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of 2024-02-29, February 29, 2024, 29 Feb.; the year may be 0.

    Of 02/03/2024 nobody knows which is the month.
    """
    plain = " ".join(TEXT.sub(r" \1 ", text).replace(",", " ").split()).strip(" .")
    if iso := _ISO_DATE.fullmatch(plain):
        year, month, day = map(int, iso.groups())
    elif written := _WRITTEN_DATE.fullmatch(plain):
        month = 1 + _MONTHS.index((written[2] or written[3])[:3].lower())
        day, year = int(written[1] or written[4]), int(written[5] or 0)
    else:
        return None
    return (year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _may_be_ratio(text: str) -> bool:
    """3:10 and 5:12:13 may be ratios; 3:05, 12:10 and 03:10 may not."""
    parts = text.split(":")
    if not all(part.isdigit() and part[0] != "0" for part in parts):
        return False
    return gcd(*map(int, parts)) == 1


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
    """Return the answer that a normalised sentence gives, as 27 for `The answer is 27`.

    Text that is no such sentence is returned as it is, and so is one with a word that changes
    the answer, as in `The wrong answer is 27`.
    """
    if not _SPOKEN.search(text):
        return text
    if text.startswith(r"\text{") and closing(text, 5) == len(text) - 1:
        inside = text[6:-1].strip()  # Yes, it is
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
