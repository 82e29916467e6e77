r"""The words of LaTeX and Unicode mathematics, and the one character or command each becomes."""

from __future__ import annotations

from unicodedata import normalize


def words(text: str) -> frozenset[str]:
    """The set of the words of `text`."""
    return frozenset(text.split())


FUNCTIONS = words("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt")

_CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "*", "·": "*", "⋅": "*",
    "∙": "*", "÷": "/", "∕": "/",
    "⁄": "/", "√": r"\sqrt ", "µ": r"\mu ", "∏": r"\prod ", "∑": r"\sum ", "′": "'", "、": ", ",
    "。": ".", "⩾": "≥", "≧": "≥", "⩽": "≤", "≦": "≤", "º": "°", "˚": "°", "∧": ", ",
    "∩": r"\cap ", "∅": r"\emptyset ", "∠": r"\angle ", "∛": r"\sqrt[3]", "ℝ": r"\mathbb{R}",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200a": " ",
    "\u2002": " ", "\u2003": " ", "\u200b": "", "\u2060": "", "\ufeff": "", "⟨": "(", "⟩": ")",
    "″": "''", "…": r"\ldots ",
}  # fmt: skip
_LOWER_CASE = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega"
)
_LETTERS = "αβγδεζηθικλμνξρστυφχψω"
_GREEK = {letter: f"\\{name} " for letter, name in zip(_LETTERS, _LOWER_CASE.split(), strict=True)}
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
_DIRECTIONS = dict.fromkeys(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F))), "")
_FRACTIONS = {
    fraction: r"\frac{{{}}}{{{}}}".format(*normalize("NFKC", fraction).split("⁄"))
    for fraction in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"
}
_STYLED = {  # 𝟐, 𝑥, 𝜋: the bold, italic and other letters and digits of mathematics
    chr(code): _GREEK.get(plain := normalize("NFKC", chr(code)), plain)
    for code in range(0x1D400, 0x1D800)
}
ONE_CHARACTER = str.maketrans(
    _CHARACTERS | _GREEK | _FULL_WIDTH | _DIRECTIONS | _FRACTIONS | _STYLED
)
"""What is no ASCII, and the ASCII or the single character that it becomes."""
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")

SYMBOLS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤",
    "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "ne": "≠", "neq": "≠", "lt": "<",
    "gt": ">", "approx": "≈", "cup": "∪", "in": "∈", "infty": "∞", "pi": "π", "degree": "°",
    "lor": "∨", "land": ", ", "lbrack": "[", "rbrack": "]", "lbrace": r"\{", "rbrace": r"\}",
    "varnothing": r"\emptyset ", "langle": "(", "rangle": ")", "prime": "'",
    "lvert": "|", "rvert": "|", "vert": "|", "mid": "|",
    "quad": ", ", "qquad": ", ", "newline": ", ",
}  # fmt: skip
DROPPED = words(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits boxed fbox "
    "thinspace enspace space mathbf mathit mathsf mathtt bm boldsymbol bf sf tt large Large LARGE "
    "huge Huge underline mathstrut"
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
