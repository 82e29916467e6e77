r"""The words of LaTeX and Unicode mathematics, and the one character or command each becomes."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The set of the words of `text`."""
    return frozenset(text.split())


FUNCTIONS = words("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt")

_CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "∕": "/",
    "⁄": "/", "√": r"\sqrt ", "µ": r"\mu ", "∏": r"\prod ", "∑": r"\sum ", "′": "'", "，": ",",
    "、": ",", "；": ";", "（": "(", "）": ")", "＝": "=", "。": ".",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}",
    "¾": r"\frac{3}{4}", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200a": " ",
    "\u2002": " ", "\u2003": " ", "\u200b": "", "\ufeff": "", ";": ",", "⟨": r"\langle ",
    "⟩": r"\rangle ",
}  # fmt: skip
_LOWER_CASE = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega"
)
_LETTERS = "αβγδεζηθικλμνξρστυφχψω"
ONE_CHARACTER = str.maketrans(
    _CHARACTERS
    | {letter: f"\\{name} " for letter, name in zip(_LETTERS, _LOWER_CASE.split(), strict=True)}
    | {digit: str(value) for value, digit in enumerate("０１２３４５６７８９")}
)
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")

SYMBOLS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤",
    "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "ne": "≠", "neq": "≠", "lt": "<",
    "gt": ">", "approx": "≈", "cup": "∪", "in": "∈", "infty": "∞", "pi": "π", "degree": "°",
    "lor": "∨", "lbrack": "[", "rbrack": "]", "lbrace": r"\{", "rbrace": r"\}",
    "prime": "'", "lvert": "|", "rvert": "|", "vert": "|", "mid": "|",
    "quad": ",", "qquad": ",", "newline": ",",
}  # fmt: skip
DROPPED = words(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits boxed fbox "
    "thinspace mathbf mathit bm boldsymbol mathstrut"
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
