"""The contract of a judge, as a test class to inherit."""

import gc
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sage_cli.grading.grades import STATUSES, Status, status_of
from sage_cli.grading.judges import Judge

_EMPTY = ("", " ", "\n\t")
_PATIENCE_S = 60.0
_QUICK_S = 0.1
"""Processor time, well above what `quick` may take, so that a slow machine doesn't matter."""
_TEXTS = 300
_LONGEST = 2000
_PIECES = (
    *"27 \n\t=,;.{}()[]<>$%^_*/+-|&~'\"\\\0\ud800٣²π√é语🙂",
    r"\frac",
    r"\boxed{",
    r"\text{",
    "</SOLUTION>",
    "x=",
    "Ann is a",
    " and ",
    " or ",
    "1e999",
    "9" * 50,
)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collection of the test's own objects out of the measured time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class JudgeContract(ABC):
    """Golds are right, empty answers never, `quick` never raises, `full` agrees with it."""

    golds: Sequence[str]
    """Some golds as a data set has them, no two of them equal."""
    wrong: Sequence[tuple[str, str]]
    """(gold, answer) pairs that are `wrong`; at least one, or a judge that always pays passes."""
    right: Sequence[tuple[str, str]] = ()
    """(gold, answer) pairs that are `right` though they are written differently."""
    tolerance: float | None = None
    """For a judge that has one: the relative tolerance of the pairs below."""
    near: Sequence[tuple[str, str]] = ()
    """(gold, answer) pairs that are right within `tolerance` and not without it."""
    far: Sequence[tuple[str, str]] = ()
    """(gold, answer) pairs that are wrong even within `tolerance`."""

    @abstractmethod
    def make(self) -> Judge:
        """Return a new instance of the judge under test."""

    def status(self, gold: str, answer: str, tolerance: float | None = None) -> Status:
        """Return the status of a pair: from `quick`, and from `full` where that is None."""
        quick = self.make().quick(gold, answer, tolerance)
        return self.in_full(gold, answer, tolerance) if quick is None else status_of(quick)

    def in_full(self, gold: str, answer: str, tolerance: float | None = None) -> Status:
        """Return the status that `full` gives, with time enough."""
        deadline = time.monotonic() + _PATIENCE_S
        return status_of(self.make().full(gold, answer, tolerance, deadline))

    def known_pairs(self) -> list[tuple[str, str]]:
        """Return all the pairs of which the right status is known."""
        return [*((gold, gold) for gold in self.golds), *self.right, *self.wrong]

    def texts(self) -> Iterator[str]:
        """Texts that models write, from nothing to 2,000 characters; the same ones every time."""
        rng = random.Random(3407)
        yield from _EMPTY
        for piece in _PIECES:
            yield piece
            yield (piece * _LONGEST)[:_LONGEST]
        for _ in range(_TEXTS):
            pieces = rng.choices((*_PIECES, *self.golds), k=rng.randint(1, 40))
            yield "".join(pieces)[:_LONGEST]

    def test_a_gold_grades_itself_right(self) -> None:
        """Or no policy could ever be paid."""
        assert {gold: self.status(gold, gold) for gold in self.golds} == dict.fromkeys(
            self.golds, "right"
        )

    def test_right_and_wrong_answers_are_told_apart(self) -> None:
        """Among them the other golds, which are wrong too."""
        assert self.wrong, "name a wrong answer: a judge that always pays would pass"
        assert [pair for pair in self.right if self.status(*pair) != "right"] == []
        assert [pair for pair in self.wrong if self.status(*pair) != "wrong"] == []
        others = [(gold, answer) for gold in self.golds for answer in self.golds if gold != answer]
        assert [pair for pair in others if self.status(*pair) == "right"] == []

    def test_an_empty_answer_is_unparseable_or_wrong(self) -> None:
        """Silence is never paid, nor a failure of the verifier."""
        for gold in self.golds:
            for empty in _EMPTY:
                assert self.status(gold, empty) in ("unparseable", "wrong")
                assert self.in_full(gold, empty) in ("unparseable", "wrong")

    def test_quick_never_raises_and_never_takes_long(self) -> None:
        """It runs in the trainer's process, on whatever a model writes and a data set holds."""
        judge = self.make()
        for text in self.texts():
            for gold, answer in ((self.golds[0], text), (text, self.golds[0]), (text, text)):
                with _without_collections():
                    began = time.thread_time()
                    status = judge.quick(gold, answer, self.tolerance)
                    took_s = time.thread_time() - began
                assert status is None or status in STATUSES, (gold, answer, status)
                assert took_s < _QUICK_S, (gold, answer)

    def test_quick_and_full_agree(self) -> None:
        """If `quick` decides, `full` gives the same status; it always gives one."""
        for gold, answer in self.known_pairs():
            for tolerance in {None, self.tolerance}:
                quick = self.make().quick(gold, answer, tolerance)
                full = self.in_full(gold, answer, tolerance)
                assert full in STATUSES, (gold, answer, full)
                assert quick in (None, full), (gold, answer, quick, full)

    def test_the_same_pair_gets_the_same_status(self) -> None:
        """From one instance asked twice in any order, and from another."""
        judge, pairs = self.make(), self.known_pairs()
        first = [judge.quick(*pair, None) for pair in pairs]
        assert [judge.quick(*pair, None) for pair in reversed(pairs)] == first[::-1]
        assert [self.make().quick(*pair, None) for pair in pairs] == first
        assert [self.status(*pair) for pair in pairs] == [self.status(*pair) for pair in pairs]

    def test_a_tolerance_is_respected(self) -> None:
        """Right within it, wrong beyond it, and wrong without it."""
        assert not (self.near or self.far) or self.tolerance is not None
        assert [pair for pair in self.near if self.status(*pair, self.tolerance) != "right"] == []
        assert [pair for pair in self.near if self.status(*pair) == "right"] == []
        assert [pair for pair in self.far if self.status(*pair, self.tolerance) != "wrong"] == []
