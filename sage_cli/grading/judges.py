"""Judges by name: of mathematics, of roles, of one's own function, of imported grades."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.grading.grades import Judged, Status
from sage_cli.grading.mathematics.english import DENIES
from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.notation import latex, normalise
from sage_cli.grading.mathematics.quantities import read_quantity
from sage_cli.settings.judge_names import (
    BUILT_IN_JUDGES,
    EXTRACTIONS,
    IMPORTED_JUDGE,
    MODES,
    Extraction,
)
from sage_cli.settings.own_code import OwnFunction, blamed, names_code

_GOLD = re.compile(r"(?<![\w'-])['-]*(\w[\w'-]*) is an? (\w+)")
_DECORATION = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|boxed)\b|[*{}$`\"]")
_LIAR, _TELLER = re.compile(r"\bliar(?=s?\b)"), re.compile(r"\btruth[- ]?teller(?=s?\b)")
"""Other words for the two roles of the island."""
_OPPOSITES = {"knight": "knave", "knave": "knight"}
_UNCERTAIN = re.compile(
    rf"{DENIES.pattern}|\b(?:x?or|either|both|whether|iff|implies|reverse|vice|suppose|assum\w+|would|"
    r"could|might|can|likely|hardly|doubt|said|says|claims|contradict\w*|knights?|knaves?)\b|\?"
)


class Judge:
    """Compares an answer with a gold, both stripped plain text of at most 2,000 characters.

    It says a status, or the share in [0, 1] of the answer that is correct: 1 counts as correct.

    Judges are made without arguments and hold no state, because `full` runs in another process,
    which finds the judge by name.
    """

    def reads_question(self, gold: str) -> bool:  # noqa: ARG002
        """Return True if an answer may be judged otherwise in view of another question."""
        return False

    def quick(
        self,
        gold: str,  # noqa: ARG002
        answer: str,  # noqa: ARG002
        tolerance: float | None,  # noqa: ARG002
        question: str = "",  # noqa: ARG002
    ) -> Judged | None:
        """Return the status if any text allows it in well under a millisecond, else None.

        `tolerance` is relative and None where answers must be exact. `question` is "" where it
        isn't known, and where `reads_question` says that it doesn't count.
        """
        return None

    def full(
        self,
        gold: str,
        answer: str,
        tolerance: float | None,
        deadline: float,  # noqa: ARG002
        question: str = "",
    ) -> Judged:
        """Return the status, at whatever cost; the process is killed after `deadline`.

        `deadline` is of time.monotonic. TimeoutError counts as `timeout`, any other as `error`.
        """
        status = self.quick(gold, answer, tolerance, question)
        return "error" if status is None else status

    def warm_up(self) -> None:
        """Load what `full` needs: once in each worker, before its memory and time are bounded."""


class _WithMathVerify(Judge):
    def warm_up(self) -> None:
        """Load Math-Verify and sympy."""
        from sage_cli.grading.mathematics import mathverify

        mathverify.warm_up()


class StrictMath(_WithMathVerify):
    """Exact comparison first; Math-Verify decides the rest, behind guards."""

    def reads_question(self, gold: str) -> bool:
        """Return True for an amount with a unit, and for an angle."""
        return read_quantity(normalise(gold).rpartition("=")[2]) is not None

    def quick(
        self, gold: str, answer: str, tolerance: float | None, question: str = ""
    ) -> Status | None:
        """Return the status unless it takes computer algebra."""
        if not normalise(answer):
            return "unparseable"
        equal = Equality(tolerance, question=question)(gold, answer)
        return None if equal is None else _status(equal)

    def full(
        self, gold: str, answer: str, tolerance: float | None, deadline: float, question: str = ""
    ) -> Status:
        """Return the status, with Math-Verify where exact comparison leaves it open."""
        from sage_cli.grading.mathematics import mathverify

        if not normalise(answer):
            return "unparseable"

        def prove(gold: str, answer: str) -> bool:
            return mathverify.equal(latex(gold), latex(answer), deadline)

        try:
            return _status(bool(Equality(tolerance, prove, question)(gold, answer)))
        except mathverify._UnreadableError:
            return "unparseable"


class PlainMathVerify(_WithMathVerify):
    """Math-Verify without guards, for comparison with published numbers; no tolerance."""

    _search = False

    def full(
        self,
        gold: str,
        answer: str,
        tolerance: float | None,  # noqa: ARG002
        deadline: float,
        question: str = "",  # noqa: ARG002
    ) -> Status:
        """Return Math-Verify's status."""
        from sage_cli.grading.mathematics import mathverify

        return mathverify.config(gold, answer, deadline, search=self._search)


class SearchingMathVerify(PlainMathVerify):
    """The same for a whole completion, in which Math-Verify looks for the answer itself."""

    _search = True


def _status(equal: bool) -> Status:
    return "right" if equal else "wrong"


class Roles(Judge):
    """Correct if every name has its role; wrong if one is missing, different or contradicted."""

    def quick(
        self,
        gold: str,
        answer: str,
        tolerance: float | None,  # noqa: ARG002
        question: str = "",  # noqa: ARG002
    ) -> Status | None:
        """Return the status, always."""
        roles = read_gold(gold)
        if not roles:
            return "error"
        assigned = _assignments(answer, tuple(roles))
        if not assigned:
            return "unparseable"
        return "right" if assigned == set(roles.items()) else "wrong"


@lru_cache(maxsize=4096)
def read_gold(gold: str) -> dict[str, str]:
    """Role by name, both in lower case: `Ann is a knight, and Bob is a knave.`"""
    return {name.lower(): role.lower() for name, role in _GOLD.findall(gold)}


def _assignments(answer: str, names: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return every (name, role) that the answer states; a name with two roles appears twice.

    An answer that denies, doubts or conditions its statements has the pair (?, ?), too.
    """
    text = _DECORATION.sub("", answer.lower()).replace("’", "'")
    text = _with_exception(_TELLER.sub("knight", _LIAR.sub("knave", text)), names)
    assigned: set[tuple[str, str]] = set()
    statements = _statements(names)
    for match in statements.finditer(text):
        role = match["role"] or match["role_first"]
        role = role.removesuffix("s") if role[:-1] in _OPPOSITES or match["verb"] == "are" else role
        if match["not"]:
            role = _OPPOSITES.get(role, "?")
        stated = match["names"] or match["names_after"] or ""
        people = {name for name in re.findall(r"\w[\w'-]*", stated) if name in names}
        if match["all"]:
            people = set(names)
        elif match["others"]:
            people = set(names) - {name for name, _ in assigned}
        assigned |= {(name, role) for name in people}
    if assigned and _UNCERTAIN.search(statements.sub(" ", text)):
        assigned.add(("?", "?"))
    return assigned


def _with_exception(text: str, names: tuple[str, ...]) -> str:
    """Return `everyone is a knight except Bob` and `Bob is the only knave` as what they say."""
    for number, pattern in enumerate(_exceptions(names)):
        if match := pattern.fullmatch(text.strip(" .\n")):
            role = match["role"].removesuffix("s")
            own, others = (role, _OPPOSITES[role]) if number == 0 else (_OPPOSITES[role], role)
            return f"{match['names']} are {own}s, the others are {others}s"
    return text


def _any_of(names: tuple[str, ...]) -> str:
    """Return the pattern of any of these names; of Ann and Anna the longer one is tried first."""
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


@lru_cache(maxsize=1024)
def _exceptions(names: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    name = _any_of(names)
    several = rf"(?P<names>{name}(?:(?:, and |, | and ){name})*)"
    all_of = r"(?:every(?:one|body)|all(?: of them)?|they(?: are)? all)"
    role, but = r"(?:an? )?(?P<role>kn(?:ight|ave)s?)", r"(?:except(?: for)?|but|apart from)"
    return (
        re.compile(rf"{several} (?:is|are) the only (?P<role>kn(?:ight|ave)s?)"),
        re.compile(rf"{all_of}(?: is| are)? {role},? {but} {several}"),
        re.compile(rf"{all_of},? {but} {several},? (?:is|are) {role}"),
    )


@lru_cache(maxsize=1024)
def _statements(names: tuple[str, ...]) -> re.Pattern[str]:
    name = _any_of(names)
    several = rf"{name}(?:(?:, and |, | and | ?& ?){name})*(?![\w'-])"
    return re.compile(
        rf"(?<![\w'-])(?:(?P<names>{several})|(?:the )?(?P<others>others?|rest)|(?P<all>both|they"
        rf"|all|every(?:one|body)))(?: both| all)?\s*"
        r"(?:(?P<verb>\bis(?=n't)|\bis\b|\bare\b|\bmust be\b|=|:|->|→|-)\s*"
        r"|(?=\()|[,|]?\s*(?=kn(?:ight|ave)))"
        r"(?P<not>not |n't )?(?:both |all )?(?:an? |the (?:only )?)?\(?(?P<role>[a-z]+)\)?"
        rf"|\b(?P<role_first>knight|knave)s?\s*(?:\bis\b|\bare\b|=|:)\s*(?P<names_after>{several})"
    )


class FunctionJudge(Judge):
    """Calls the function in a worker process, which may be killed; only the worker loads it.

    True and False are correct and wrong. A float is the share in [0, 1] that is correct. A function
    that `sees_text` is given question, completion and gold; the gold is the JSON of two of them.
    """

    def __init__(self, function: OwnFunction, *, sees_text: bool = False) -> None:
        function.require()
        self.function, self.sees_text = function, sees_text
        self._called: Callable[..., Any] | None = None
        self._refused: ConfigurationError | None = None

    def warm_up(self) -> None:
        """Load the function; where that fails, every answer is an error that says why."""
        try:
            self._called = self.function.load()
        except ConfigurationError as error:
            self._refused = error

    def full(
        self,
        gold: str,
        answer: str,
        tolerance: float | None,  # noqa: ARG002
        deadline: float,  # noqa: ARG002
        question: str = "",  # noqa: ARG002
    ) -> Judged:
        """Return what the function says.

        Raises ConfigurationError, with the line, for what it raises and for what is neither.
        """
        returned = self._asked(answer, gold)
        returned = returned.item() if hasattr(returned, "item") else returned
        if isinstance(returned, bool):
            return "right" if returned else "wrong"
        if isinstance(returned, int | float) and 0 <= returned <= 1:
            return float(returned)
        raise ConfigurationError(
            f"{self.function} returns {returned!r}, which is neither a boolean nor a "
            "number in [0, 1]"
        )

    def _asked(self, answer: str, gold: str) -> Any:
        """Return what the function returns; name it, and the line, in what it raises."""
        if self._called is None:
            raise self._refused or RuntimeError("the judge was not loaded")
        try:
            with blamed(str(self.function), self.function.module):
                if self.sees_text:
                    question, gold = json.loads(gold)
                    return self._called(question, answer, gold)
                return self._called(answer, gold)
        except ConfigurationError as error:
            if isinstance(error.__cause__, TimeoutError):  # has a status of its own
                raise error.__cause__ from None
            raise


class Verdicts(Judge):
    """Gives `error`: only an imported sample has a verdict, which is read and not judged."""

    def quick(
        self,
        gold: str,  # noqa: ARG002
        answer: str,  # noqa: ARG002
        tolerance: float | None,  # noqa: ARG002
        question: str = "",  # noqa: ARG002
    ) -> Status:
        """Return `error`."""
        return "error"


def find_judge(name: str, mode: str, extract: Extraction = "tags") -> Judge:
    """Return the judge called `name`; under `math-verify`, mathematics is Math-Verify's alone.

    A name with a colon is a function of one's own, which is found here and run in workers alone;
    under `text` it is one of question, completion and gold.

    Raises ConfigurationError for an unknown name or mode, and for a mode that doesn't search texts
    under `text`.
    """
    if mode not in MODES:
        raise _unknown("grading mode", mode, MODES)
    if extract not in EXTRACTIONS:
        raise _unknown("way of extracting answers", extract, EXTRACTIONS)
    if name == "math" and extract == "text" and mode != "math-verify":
        raise ConfigurationError(
            f"the grading mode '{mode}' compares answers; it doesn't search a text for one",
            "grade 'text' in the mode math-verify, or extract tags-then-boxed",
        )
    match name:
        case "math" if mode == "math-verify":
            return SearchingMathVerify() if extract == "text" else PlainMathVerify()
        case "math":
            return StrictMath()
        case "roles":
            return Roles()
        case _ if name == IMPORTED_JUDGE:
            return Verdicts()
    if names_code(name):
        return FunctionJudge(OwnFunction.parse(name), sees_text=extract == "text")
    raise _unknown("judge", name, BUILT_IN_JUDGES)


def label_of(name: str) -> str:
    """Return the judge's name, that of a function of one's own without the folders of its file."""
    return OwnFunction.parse(name).label if names_code(name) else name


def _unknown(kind: str, name: str, names: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(f"no {kind} is called '{name}'", "one of: " + ", ".join(names))
