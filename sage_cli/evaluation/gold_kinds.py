"""The kinds of answers that golds read as."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from sage_cli.errors import DataError
from sage_cli.problems.problem import Problem

_WORD = r"[^\W\d_]{2}\w*(?:['’.-]+\w+)*['’.-]*"
_READABLE = {
    "number": r"[-+]?\\?\$?[\d,]*\.?\d+(?:[eE][-+]?\d+)?\s*\\?%?",
    "choice": r"(?:\\text\w*\{)?\(?[A-Z]\)?\}?",
    "assignment": r"[^=<>]*[^\W\d_]\S*\s*=.+",
    "word": rf"(?:\\text\w*\{{)?{_WORD}(?:\s+{_WORD}){{0,3}}\s*\}}?",
    "formula": r".*[\d\\^_+*/=<>(\[|-].*|[^\W_]{1,4}",
}
_DOUBTFUL = {
    "Python or JSON": r"""[\[{(].*['"].*[\])}]|(?:array|dict|set|tuple)\(.*""",
    "a missing value": r"(?i:nan|<na>|nat|none|null|n/a|not ?found|proof)",
    "a worked solution": r".*(?:####|\\boxed|\n).*",
    "a sentence": r"(?:[^\W\d_]+['’,;:-]?\w*\s+){4,}\S.*|.*\banswer\b.*",
    "a long text": r".{301,}",
}


def describe_golds(problems: Sequence[Problem]) -> str:
    """Count golds by the kind of answer that each reads as.

    Raises DataError for those that are hardly answers, although each is equal to itself.
    """
    kinds, doubtful = Counter[str](), []
    for gold in (gold for problem in problems for gold in problem.golds):
        forms = (_DOUBTFUL | _READABLE).items()
        kind = next((kind for kind, form in forms if re.fullmatch(form, gold, re.S)), "a text")
        kinds[kind] += 1
        if kind not in _READABLE:
            doubtful.append(f"{shorten(gold, 60)} ({kind})")
    if doubtful:
        raise DataError(
            f"{len(doubtful):,} of {kinds.total():,} reference answers do not look "
            f"like mathematical answers: {'; '.join(doubtful[:3])}",
            "give the column or path that contains only the answer, or choose a judge "
            "with grading.judge",
        )
    return ", ".join(f"{n:,} {kind}{'s' * (n > 1)}" for kind, n in kinds.most_common())
