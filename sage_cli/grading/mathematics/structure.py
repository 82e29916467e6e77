"""The structure of an answer: a tuple, an interval, a set, a list, a union, a matrix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.english import TEXT
from sage_cli.grading.mathematics.expression import constant
from sage_cli.grading.mathematics.names import is_quantity, is_symbol
from sage_cli.grading.mathematics.notation import closing, unwrapped
from sage_cli.grading.mathematics.values import Value, close, is_real

_ENVIRONMENT = re.compile(
    r"([^=]*?)[\[(]?\\begin ?\{([pb]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?(.*)"
    r"\\end ?\{\2\}[\])]?(\^(?:\{?T\}?|\{?\\top ?\}?))?",
    re.DOTALL,
)
_INEQUALITY = re.compile(r"[<>≤≥]")
_MEMBER_OF = re.compile(r"(\\?[A-Za-z]+|\([A-Za-z]+(?:,[A-Za-z]+)+\))∈")
_MAGNITUDE = re.compile(r"\|(\\?[A-Za-z]+)([+-][^|]+)?\|")
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\w|\{\w+\}))?(?:\(\w\))?")
_UNKNOWN = re.compile(rf"{_NAME.pattern}|{_MAGNITUDE.pattern}")
Cut = tuple[float, int, Value]
"""A place before (0) or after (1) a number: (1,2] lies between the cuts after 1 and after 2."""
Region = list[tuple[Cut, Cut]]
_REALS = re.compile(
    r"(?:\\text ?\{)? ?(?:all )?real(?: ?numbers?|s)?(?: ?[a-z])? ?\}?|\\mathbb ?\{?R\}?|(?-i:R)",
    re.IGNORECASE,
)
_BUILDER = re.compile(r"\\\{([A-Za-z])(?:∈\\mathbb ?\{?R\}?)?(?:\||:)(.*)\\\}")
_OUTSIDE = re.compile(
    r"([A-Za-z])(?:≠|\\notin ?)([^≠]+)|\\mathbb ?\{?R\}?\\(?:setminus|backslash) ?(.+)"
    r"|(?:\\text ?\{)? ?(?:all )?real(?: numbers?|s)? except(?: for)? ?\}? ?(?:[a-z]=)?(.+)"
)
_CONDITION = re.compile(r"[<>≤≥≠∈]|\\notin")
_LOWEST, _HIGHEST = (-math.inf, 1, -math.inf), (math.inf, 0, math.inf)
Equal = Callable[[str, str], bool | None]
"""(gold, answer) -> their equality."""
_INDEX = re.compile(r"_\{\d+\}$")
_COORDINATES = frozenset("xyz")
Assigned = list[tuple[str, str]]
Solutions = list[dict[str, str]]
"""The unknowns of a problem, at least two, with their values: the same in every solution."""
_RAISED = re.compile(r"\}? ?\^(?:\{ ?(?:(-1)|T|\\top) ?\}|T|\\top)")
_NUMERATOR = re.compile(r"\\frac ?(\w|\{[^{}]*\}) ?(?:\w|\{[^{}]*\})")
_FACTOR = re.compile(r"\\[a-z]+|[\d.]+ᵀ?|(\\[A-Z][a-z]+|[A-Za-z()]|_\w+ |[ᵀ⁻+,=-])")
_TERM = re.compile(r"\)*[^()+,-]+\(*|[()]+")
_INVERSE = r"(?:[A-Z]|\\\w+)(?:_\w+ )?⁻"
_ORDERED = re.compile(rf"[A-Za-z ]ᵀ|[A-Z]\)ᵀ|\)ᵀ[\w(]|{_INVERSE}[\w(\\]|[A-Z ]\)?{_INVERSE}")
_BOLD = re.compile(r"(?:\\(?:mathbf|bm|bf|boldsymbol)\s*\{?\s*[A-Za-z\\][^\\=+-]*){2}")


@dataclass(frozen=True)
class Structure:
    r"""`kind` is the pair of brackets, or `set`, `list`, `either`, `union`, `matrix 2x1`, `leaf`.

    `either` are alternatives, written with "or" or ±. `name` is the variable of an inequality,
    which is read as the interval that it describes.
    """

    kind: str
    items: tuple[str, ...]
    name: str = ""

    @property
    def ordered(self) -> bool:
        """Return True if the items' order counts."""
        if any("dots" in item for item in self.items):  # 1, 2, ..., n
            return True
        return self.kind not in ("set", "list", "either", "union", "⋀", "⋁")


@lru_cache(maxsize=8192)
def read_structure(text: str) -> Structure:
    """The outermost structure of the normalised `text`; its items are normalised texts too."""
    # The weakest separator is split first: a union's parts are lists or intervals, a list's items
    # tuples. Each part is read by another call.
    if "∪" in text and len(parts := split(text, "∪")) > 1:
        return Structure("union", tuple(parts))
    if "∨" in text and len(parts := split(text, "∨")) > 1:
        if all(_INEQUALITY.search(part) for part in parts):
            return Structure("union", tuple(parts))
        return Structure("either", _items(",".join(parts)))
    for operator in ("⋁", "⋀"):
        if operator in text and len(parts := split(text, operator)) > 1:
            return Structure(operator, tuple(parts))
    # x ∈ (1, 2] is read as its interval. With an inequality behind it, as n ∈ N, n > 2, the
    # membership is only a condition.
    if (match := _MEMBER_OF.match(text)) and _INEQUALITY.search(text) is None:
        inside = read_structure(text[match.end() :])
        return Structure(inside.kind, inside.items, match[1])
    if "," in text and len(split(text, ",")) > 1:
        return Structure("list", _items(text))
    if _INEQUALITY.search(text) and (interval := _interval(text)):
        return interval
    if r"\begin" in text and (matrix := _ENVIRONMENT.fullmatch(text)):
        rows = [row.split("&") for row in matrix[3].strip().removesuffix("\\\\").split("\\\\")]
        return _matrix(rows, matrix[1].removesuffix("*"), transposed=bool(matrix[4]))
    if text.startswith("[[") and (rows := _rows(text)):
        return _matrix(rows)
    # Two colons or more are a proportion, 1:2:3. A single one is a quotient, which expressions
    # read.
    if ":" in text and "=" not in text and len(parts := split(text, ":")) > 2:
        return Structure(":", tuple(parts))
    if bracketed := _bracketed(text):
        return bracketed
    if "±" in text or "∓" in text:
        return Structure("either", _items(text))
    return Structure("leaf", (text,))


def split(text: str, separator: str) -> list[str]:
    """`text` cut at the separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        if character in "{([":
            depth += 1
        elif character in "})]":
            # Not below 0: half-open intervals such as ]0, 1] begin with a closing bracket.
            depth = max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append(text[begin:position].strip())
            begin = position + 1
    return [*parts, text[begin:].strip()]


def _items(text: str) -> tuple[str, ...]:
    items = []
    for item in split(text, ","):
        if "±" in item or "∓" in item:
            # The signs go together: of 1±2∓3 there are two values, not four.
            upper = item.replace("±", "+").replace("∓", "-")
            lower = item.replace("±", "-").replace("∓", "+")
            items += [upper.lstrip("+"), lower.lstrip("+")]
        else:
            items.append(unwrapped(item))
    return tuple(items)


def _bracketed(text: str) -> Structure | None:
    if text.startswith(r"\{") and text.endswith(r"\}") and closing(text, 1) == len(text) - 1:
        return Structure("set", _items(text[2:-2].strip()))
    if text[:1] in ("(", "[") and text[-1:] in (")", "]") and closing(text, 0) == len(text) - 1:
        items = tuple(split(text[1:-1], ","))
        if len(items) > 1:
            return Structure(text[0] + text[-1], items)
    return None


def _interval(text: str) -> Structure | None:
    """Return the interval of `x>2` or `3<x≤4`; None for anything less simple."""
    parts = re.split(r"([<>≤≥])", text)
    texts, relations = [part.strip() for part in parts[::2]], parts[1::2]
    if len(relations) == 1:
        left, right = texts
        if _UNKNOWN.fullmatch(right) and not _UNKNOWN.fullmatch(left):
            left, right = right, left
            # 2 < x is written as x > 2; the index finds the mirrored sign.
            relations = ["<>≤≥"["><≥≤".index(relations[0])]]
        if magnitude := _MAGNITUDE.fullmatch(left):
            return _magnitude(magnitude[1], magnitude[2] or "", relations[0], right)
        texts, relations = (
            (["-∞", left, right], ["<", relations[0]])
            if relations[0] in "<≤"
            else (["∞", left, right], [">", relations[0]])
        )
    if len(relations) != 2 or not _NAME.fullmatch(texts[1]):
        return None
    # 4 ≥ x > 3 is turned round. Mixed directions such as 1 < x > 0 don't give an interval.
    if all(relation in ">≥" for relation in relations):
        texts, relations = texts[::-1], ["<≤"[">≥".index(r)] for r in reversed(relations)]
    if not all(relation in "<≤" for relation in relations):
        return None
    kind = ("(" if relations[0] == "<" else "[") + (")" if relations[1] == "<" else "]")
    return Structure(kind, (texts[0], texts[2]), texts[1])


def _magnitude(name: str, shift: str, relation: str, bound: str) -> Structure:
    """|x|<a as an interval around 0, |x|>a as what lies beyond it on both sides."""
    low = f"-{bound}" if re.fullmatch(r"[\w.π∞]+", bound) else f"-({bound})"
    if shift:
        low, bound = f"{low}-(0{shift})", f"{bound}-(0{shift})"
    if relation in "<≤":
        return Structure("()" if relation == "<" else "[]", (low, bound), name)
    # |x| > a has two parts, both open or both closed: the sign of the lower one is mirrored.
    below = "<≤"[">≥".index(relation)]
    return Structure("union", (f"{name}{below}{low}", f"{name}{relation}{bound}"))


def _matrix(rows: list[list[str]], factor: str = "", *, transposed: bool = False) -> Structure:
    """Return the matrix, transposed and with its entries multiplied by a constant factor."""
    if transposed and len({len(row) for row in rows}) == 1:
        rows = [list(column) for column in zip(*rows, strict=True)]
    entries = [entry.strip() for row in rows for entry in row]
    if factor:
        factor = "-1" if factor == "-" else factor
        products = [f"({factor})({entry})" for entry in entries]
        values = map(constant, products)
        entries = [
            str(v) if isinstance(v, Fraction) else p for v, p in zip(values, products, strict=True)
        ]
    return Structure("matrix " + "x".join(str(len(row)) for row in rows), tuple(entries))


def _rows(text: str) -> list[list[str]]:
    """Return the rows of [[1,2],[3,4]], and none of anything else."""
    rows = [split(row[1:-1], ",") for row in split(text[1:-1], ",") if row[:1] + row[-1:] == "[]"]
    square = len({len(row) for row in rows}) == 1 and text.count("[") == len(rows) + 1
    return rows if square and text.endswith("]]") else []


def read_region(text: str) -> tuple[Region, set[str]] | None:
    """The part of the real line that the normalised `text` describes, and its variable's names.

    None where it isn't one, or has ends that are not constants.
    """
    if (builder := _BUILDER.fullmatch(text)) and builder[1] in builder[2]:
        return read_region(builder[2])
    if _REALS.fullmatch(text):
        return [(_LOWEST, _HIGHEST)], set()
    if outside := _OUTSIDE.fullmatch(text):
        members = outside[2] or outside[3] or outside[4]
        inside = read_region(members if members[0] in "([\\" else rf"\{{{members}\}}")
        # An unreadable inside gives None by `and`; its complement would be the whole line.
        return inside and (complement(inside[0]), {outside[1] or ""} - {""})
    conditions = split(text, ",")
    if len(conditions) > 1 and all(map(_CONDITION.search, conditions)):
        return _joined([read_region(condition) for condition in conditions], "list")
    shape = read_structure(text)
    if shape.kind == "set" or text == r"\emptyset":
        points = [_end(item) for item in shape.items if text != r"\emptyset"]
        cuts = [((*point[:1], 0, point[2]), (*point[:1], 1, point[2])) for point in points if point]
        return (_merged(cuts), set()) if len(cuts) == len(points) else None
    if shape.kind in ("union", "either", "⋀"):
        return _joined([read_region(item) for item in shape.items], shape.kind)
    if shape.kind[:1] not in ("(", "[") or len(shape.items) != 2:
        return None
    low, high = map(_end, shape.items)
    if low is None or high is None or low[0] > high[0]:
        return None
    cut = (low[0], int(shape.kind[0] == "("), low[2]), (high[0], int(shape.kind[1] == "]"), high[2])
    return [cut], {shape.name} - {""}


def same_region(gold: Region, answer: Region) -> bool:
    """Return True if two regions have the same ends."""
    ends = [[cut for interval in region for cut in interval] for region in (gold, answer)]
    return len(ends[0]) == len(ends[1]) and all(
        a[1] == b[1] and (a[0] == b[0] if math.isinf(a[0]) else close(a[2], b[2], None))
        for a, b in zip(*ends, strict=True)
    )


def _joined(
    parts: list[tuple[Region, set[str]] | None], kind: str
) -> tuple[Region, set[str]] | None:
    """Return a union, and of a list of conditions what lies between or, as x<1, x>3, beyond."""
    regions = [part[0] for part in parts if part]
    names: set[str] = set().union(*(part[1] for part in parts if part))
    if len(regions) < len(parts) or len(names) > 1:
        return None
    union = _merged([interval for region in regions for interval in region])
    outer = [interval for region in regions for interval in complement(region)]
    both = complement(_merged(outer))
    # "x < 1, x > 3" means "or", since no number satisfies both; "0 < x, x < 2" means "and", since
    # every number satisfies one. Where both readings are possible the text is ambiguous and not a
    # region.
    if kind == "list" and (len(names) != 1 or (both and complement(union))):
        return None
    return (both if kind == "⋀" else both or union if kind == "list" else union), names


def _end(text: str) -> Cut | None:
    if text.lstrip("+-") == "∞":
        return _LOWEST if text[0] == "-" else _HIGHEST
    value = constant(text)
    return None if value is None or not is_real(value) else (float(value), 0, value)


def _merged(region: Region) -> Region:
    """Return the intervals in order, those that touch as one, and without empty ones."""
    merged: Region = []
    for low, high in sorted(region, key=lambda interval: interval[0][:2]):
        # A cut has its side of the number in it, so (1, 2) and (2, 3) don't touch, while (1, 2] and
        # (2, 3) do.
        if merged and low[:2] <= merged[-1][1][:2]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high, key=lambda cut: cut[:2]))
        elif low[:2] < high[:2]:
            merged.append((low, high))
    return merged


def complement(region: Region) -> Region:
    """Return the rest of the real line."""
    # The complement has the same cuts with the intervals shifted by one, between the two
    # infinities; empty ones at the ends go in `_merged`.
    cuts = [_LOWEST, *(cut for interval in _merged(region) for cut in interval), _HIGHEST]
    return _merged(list(zip(cuts[::2], cuts[1::2], strict=True)))


def same_items(
    gold: Sequence[str], answer: Sequence[str], equal: Equal, exactly: Equal
) -> bool | None:
    """Return True if the answer's items are the gold's in some order, some of them repeated.

    `exactly` is the equality without tolerance or algebra, by which a repetition counts.
    """
    names = _assigned_names(gold)
    if len(answer) < len(gold) or (not names and len(_assigned_names(answer)) > 1):
        return False
    # {2, 2, 3} for {2, 3} repeats a member and is right as a set; a gold that has a root twice
    # counts it, and then the answer's number of times matters.
    gold_repeats = any(exactly(a, b) for i, a in enumerate(gold) for b in gold[:i])
    may_repeat = len(answer) > len(gold) and len(names) < 2 and not gold_repeats
    unmatched, unknown = list(gold), False
    matched: list[str] = []
    for item in answer:
        results = [equal(candidate, item) for candidate in unmatched]
        if True in results:
            del unmatched[results.index(True)]
            matched.append(item)
        elif None in results:
            unknown = True
        # in x=1, y=1 the second item repeats the first and isn't the gold's x=1
        elif not (
            may_repeat
            and any(exactly(earlier, item) for earlier in matched)
            and any(equal(candidate, item) for candidate in gold)
        ):
            return False
    return None if unknown else not unmatched


def all_true(results: Iterable[bool | None]) -> bool | None:
    """Return False if any result is False, else None if any is None, else True."""
    unknown = False
    for result in results:
        if result is False:
            return False
        unknown = unknown or result is None
    return None if unknown else True


def _assigned_names(items: Sequence[str]) -> set[str]:
    """Return the names that items are assigned to."""
    return {parts[0] for item in items if len(parts := split(item, "=")) > 1}


def unnamed(solutions: Solutions, names: Iterable[str]) -> str:
    """Return a tuple for each solution, with the values in the order of `names`."""
    return ",".join(f"({','.join(row[name] for name in names)})" for row in solutions)


def as_answer(solutions: Solutions) -> str:
    """Return the meaning beside a gold that has no names.

    Coordinates come as x, y, z, other unknowns as they were written, and x_1, x_2 are values
    of one unknown.
    """
    names = list(solutions[0])
    if _COORDINATES.issuperset(names):
        return unnamed(solutions, sorted(names))
    if len({_INDEX.sub("", name) for name in names}) == len(solutions) == 1:
        return ",".join(solutions[0].values())
    return unnamed(solutions, names)


def read_solutions(text: str) -> Solutions | None:
    """The solutions that the normalised `text` assigns, each to the same unknowns; else None.

    A name that occurs again begins the next solution, and so does "or".
    """
    if "," not in text:
        return None
    rows: Solutions = []
    tuple_names: list[str] = []
    for alternative in split(text, "∨"):
        rows.append({})
        for item in split(alternative, ","):
            assigned = _assigned(item, tuple_names)
            if not assigned:
                return None
            tuple_names = [name for name, _ in assigned] if len(assigned) > 1 else []
            for name, value in assigned:
                if name in rows[-1]:
                    rows.append({})
                rows[-1][name] = value
    unlike = any(row.keys() != rows[0].keys() for row in rows)
    return None if unlike or len(rows[0]) < 2 else rows


def _assigned(item: str, tuple_names: Sequence[str]) -> Assigned | None:
    """The assignments of x=3 or (x,y)=(3,4), or of (3,4) behind such a one of `tuple_names`."""
    *left, value = split(item, "=")
    if len(left) > 1 or not value:
        return None
    if left and is_quantity(left[0]):
        return [(left[0], value)]
    names, values = _members(left[0]) if left else tuple_names, _members(value)
    if not values or len(names) != len(values) or not all(map(is_symbol, names)):
        return None
    return list(zip(names, values, strict=True))


def _members(text: str) -> list[str]:
    """Return the members of a tuple in parentheses; none of anything else."""
    if text[:1] != "(" or text[-1] != ")" or closing(text, 0) != len(text) - 1:
        return []
    return split(text[1:-1], ",")


def same_order(written: str, gold: str, answer: str) -> bool:
    """Return False if the gold is a product of matrices, and the answer is in another order."""
    gold, answer = _factors(gold), _factors(answer)
    # (AB)^{-1} is one beside A^{-1}B^{-1}, but not beside 1/(AB)
    if not (_ORDERED.search(gold + answer * (")⁻" in gold)) or _BOLD.search(written)):
        return True
    terms = [[sorted(_TERM.findall(side)) for side in text.split("=")] for text in (gold, answer)]
    sides = min(map(len, terms))  # the value suffices without the gold's name
    return sorted(terms[0][-sides:]) == sorted(terms[1][-sides:])


def _factors(text: str) -> str:
    """Return the letters with A^{T} as Aᵀ and A^{-1} as A⁻, but no scalars and denominators."""
    text = TEXT.sub("", text.replace(r"\text{T}", "T"))
    text = _RAISED.sub(lambda m: "⁻" if m[1] else "ᵀ", re.sub(r"_\{(\w+)\}", r"_\1 ", text))
    return "".join(_FACTOR.findall(_NUMERATOR.sub(r"\1", text)))
