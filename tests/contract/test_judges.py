"""Every judge of answers and every generator of problems keeps its contract."""

import gc
import hashlib
import inspect
import json
import os
import random
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from sage_cli.grading.grades import STATUSES, Status, status_of
from sage_cli.grading.judges import Judge, PlainMathVerify, Roles, StrictMath
from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.knights_knaves import KnightsKnaves
from sage_cli.problems.overlap import normalised
from sage_cli.problems.problem import Generator
from sage_cli.settings.data import ArithmeticSection, KnightsKnavesSection

COUNT, BATCH_SIZE = 37, 8
_AGAIN = """
import importlib.util, sys
file, name = sys.argv[1:]
spec = importlib.util.spec_from_file_location("contract_again", file)
module = sys.modules["contract_again"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(getattr(module, name)().digest())
"""


class GeneratorContract(ABC):
    """The same in every process, disjoint splits, stable ids, golds, an identity, plain JSON."""

    @abstractmethod
    def make(self) -> Generator:
        """Return a new instance of the generator under test."""

    @abstractmethod
    def changed(self) -> Generator:
        """Return the same generator with another setting."""

    def digest(self) -> str:
        """Return the hash of all that `make()` gives: problems, demonstrations and identity."""
        generator = self.make()
        rows = [
            asdict(problem) for split in generator.splits for problem in generator.problems(split)
        ]
        if generator.demonstrates():
            rows += [
                asdict(demonstration)
                for demonstration in generator.demonstrations(COUNT, BATCH_SIZE)
            ]
        text = json.dumps([rows, generator.identity()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def test_the_same_twice(self) -> None:
        """Two instances agree, and one agrees with itself."""
        generator = self.make()
        for split in generator.splits:
            first = generator.problems(split)
            assert first == generator.problems(split) == self.make().problems(split)
        assert self.digest() == self.digest()

    def test_the_same_in_another_process(self) -> None:
        """Nothing depends on the process: on its hash seed, its random numbers, its clock."""
        program = [sys.executable, "-c", _AGAIN, inspect.getfile(type(self)), type(self).__name__]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONHASHSEED": "4711",
        }
        done = subprocess.run(program, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == self.digest()

    def test_every_split_has_problems_and_no_question_is_in_two(self) -> None:
        """Spacing, case and punctuation apart."""
        generator = self.make()
        questions = {
            split: {normalised(problem.question) for problem in generator.problems(split)}
            for split in generator.splits
        }
        assert all(questions.values())
        assert sum(map(len, questions.values())) == len(set().union(*questions.values()))

    def test_a_problem_can_be_asked_graded_and_stored(self) -> None:
        """Samples and grades are stored by id, and what else is known of a problem as JSON."""
        generator, ids = self.make(), []
        for entry in generator.entries():
            for problem in generator.problems(entry.split):
                assert problem.question.strip()
                assert problem.gold.strip()
                assert problem.benchmark == entry.name
        for split in generator.splits:
            for problem in generator.problems(split):
                json.dumps(dict(problem.meta), allow_nan=False)
                ids.append(problem.id)
        assert len(set(ids)) == len(ids)
        assert all(ids)

    def test_the_identity_changes_with_the_settings(self) -> None:
        """And is plain JSON, which reads back as itself."""
        identity = self.make().identity()
        assert json.loads(json.dumps(identity)) == identity
        assert identity == self.make().identity()
        assert identity != self.changed().identity()

    def test_as_many_demonstrations_as_wanted_and_none_of_a_held_out_question(self) -> None:
        """For generators that make demonstrations."""
        generator = self.make()
        if not generator.demonstrates():
            return
        for count in (1, COUNT):
            assert len(generator.demonstrations(count, BATCH_SIZE)) == count
        demonstrations = generator.demonstrations(COUNT, BATCH_SIZE)
        demonstrated = {normalised(demonstration.question) for demonstration in demonstrations}
        for split in generator.splits:
            if split != "training":
                assert not demonstrated & {
                    normalised(p.question) for p in generator.problems(split)
                }


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


class Mathematics(JudgeContract):
    golds = ("27", r"\frac{1}{3}", r"2\sqrt{113}", "(3,4]", "x^2+1", r"7\pi", r"\text{Evelyn}")
    wrong = (("27", "28"), (r"2\sqrt{113}", r"2\sqrt{115}"), ("x^2+1", "x^2-1"))
    right = (("27", "27.0"), (r"2\sqrt{113}", r"\sqrt{452}"), ("x^2+1", "1+x^2"))


class TestStrictMath(Mathematics):
    tolerance = 0.01
    near = (("1.6", "1.615"), ("2000", "1990"))  # one per cent is .016 and 20
    far = (("1.6", "1.62"), ("1e-8", "0"))

    def make(self):
        return StrictMath()


class TestPlainMathVerify(Mathematics):
    def make(self):
        return PlainMathVerify()


class TestRoles(JudgeContract):
    golds = ("Ann is a knight, and Bob is a knave.", "Ann is a knave, and Bob is a knave.")
    wrong = ((golds[0], "Ann is a knight"), (golds[0], "Ann is a knight, Bob is a knight"))
    right = ((golds[0], "Bob: knave, Ann: knight"), (golds[1], "Ann and Bob are knaves"))

    def make(self):
        return Roles()


class TestArithmetic(GeneratorContract):
    def make(self):
        return Arithmetic(ArithmeticSection(high=40))

    def changed(self):
        return Arithmetic(ArithmeticSection(high=40, seed=1))


class TestKnightsKnaves(GeneratorContract):
    def make(self):
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5))

    def changed(self):
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5, seed=1))
