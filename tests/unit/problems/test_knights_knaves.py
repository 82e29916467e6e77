"""Puzzles: logic by hand, exactly one solution always, wording as published."""

import ast
import json
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.problems.knights_knaves import (
    SAYINGS,
    KnightsKnaves,
    Puzzle,
    draw_puzzle,
    draw_statement,
    holds,
    solutions,
    unique_solution,
)
from sage_cli.settings.data import KnightsKnavesSection

A, B = ("telling-truth", 0), ("telling-truth", 1)


def test_solutions_by_hand_of_connectives_that_are_known():
    # A: "B is a knave"; B: "we are both knaves". B true would make B a knave, so B lies,
    # A's claim is true, and B's claim is false as it must be: A knight, B knave alone.
    statements = [("lying", 1), ("and", ("lying", 0), ("lying", 1))]
    assert list(solutions(statements)) == [(True, False)]
    assert unique_solution(statements) == (True, False)
    # "I am a knight" fits both ways; "I am a knave" fits no way.
    assert list(solutions([A])) == [(True,), (False,)]
    assert unique_solution([A]) is None
    assert unique_solution([("lying", 0)]) is None
    with pytest.raises(ValueError, match="xor"):
        holds(("xor", A, B), (True, True))


def test_question_and_answer_as_text():
    puzzle = Puzzle(
        names=("Ida", "Leon"),
        statements=(("lying", 1), ("->", ("not", A), B)),
        solution=(True, False),
        sayings=(SAYINGS[0], '"{claim}" - {name}.'),
    )
    assert puzzle.question == (
        "A very special island is inhabited only by knights and knaves. "
        "Knights always tell the truth, and knaves always lie. "
        "You meet 2 inhabitants: Ida, and Leon. "
        'Ida asserted: "Leon is a knave". '
        '"If Ida is not a knight then Leon is a knight" - Leon. '
        "So who is a knight and who is a knave?"
    )
    assert puzzle.answer == "Ida is a knight, and Leon is a knave."


def brute_force(statements):
    """Solutions by another route: each statement as a Python expression."""

    def expression(statement):
        connective, *parts = statement
        if connective in ("telling-truth", "lying"):
            return f"(x[{parts[0]}] == {connective == 'telling-truth'})"
        if connective == "not":
            return f"(not {expression(parts[0])})"
        words = {"and": "and", "or": "or", "->": "<=", "<=>": "=="}
        return f"({f' {words[connective]} '.join(map(expression, parts))})"

    rules = [f"x[{i}] == {expression(said)}" for i, said in enumerate(statements)]
    code = compile(" and ".join(f"({rule})" for rule in rules), "rules", "eval")
    assignments = product((True, False), repeat=len(statements))
    return [x for x in assignments if eval(code, {"x": x})]


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_a_drawn_puzzle_has_exactly_its_solution(people, seed):
    puzzle = draw_puzzle(people, random.Random(seed))
    assert brute_force(puzzle.statements) == [puzzle.solution]


def twice_the_same(statement):
    """Whether a connective stands between two equal parts, as in "X if and only if X"."""
    _, *parts = statement
    return len(parts) == 2 and parts[0] == parts[1]


@pytest.mark.slow
def test_no_statement_says_the_same_thing_twice():
    """Of the published set's 1,050 none does; of drawn leaves one pair in 2 x people would."""
    for seed in range(20):
        for people in range(2, 9):
            draw = random.Random(f"{seed}:{people}")
            puzzle = draw_puzzle(people, draw)
            assert not any(map(twice_the_same, puzzle.statements))


def test_both_sides_may_be_about_one_person():
    """As in 99 of the published set's 759 statements with a connective: 13 %."""
    drawn = [draw_statement(4, random.Random(seed)) for seed in range(3000)]
    pairs = [parts for _, *parts in drawn if len(parts) == 2 and isinstance(parts[0], tuple)]
    # of 8 leaves one of the 7 others is about the same person: .143 of about 2,000, deviation .008
    share = sum(left[1] == right[1] for left, right in pairs) / len(pairs)
    assert abs(share - 1 / 7) < 0.03


def test_problems_of_every_size_without_repetition():
    problems = KnightsKnaves(KnightsKnavesSection(per_size=5)).problems("test")
    assert [p.meta["n_people"] for p in problems] == [n for n in range(2, 9) for _ in range(5)]
    assert len({p.meta["statements"] for p in problems}) == len({p.id for p in problems}) == 35
    assert problems == KnightsKnaves(KnightsKnavesSection(per_size=5)).problems("test")
    other = KnightsKnaves(KnightsKnavesSection(per_size=5, seed=1)).problems("test")
    assert not {p.id for p in other} & {p.id for p in problems}
    more = KnightsKnaves(KnightsKnavesSection(per_size=7, people=(3,))).problems("test")
    assert more[:5] == problems[5:10]


def test_two_people_don_t_get_the_same_puzzle_twice():
    # 300 draws out of 1,396: without a memory about thirty would repeat
    pairs = KnightsKnaves(KnightsKnavesSection(people=(2,), per_size=300)).problems("test")
    assert len({p.meta["statements"] for p in pairs}) == 300


def test_all_published_puzzles_are_solved_and_worded_alike(shared):
    path = shared / "data/benchmarks/knights_and_knaves.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 210
    said = [statement for row in rows for statement in ast.literal_eval(row["statements"])]
    assert (len(said), sum(map(twice_the_same, said))) == (1050, 0)
    used = set()
    for row in rows:
        statements = ast.literal_eval(row["statements"])
        solution = unique_solution(statements)
        assert solution == tuple(row["solution"])
        people = len(statements)
        blank = Puzzle(tuple(row["names"]), statements, solution, ("",) * people)
        sayings = []
        for person in range(people):
            fitting = [s for s in SAYINGS if blank.quote(person, s) in row["quiz"]]
            assert fitting, blank.quote(person, SAYINGS[0])
            sayings.append(max(fitting, key=len))
        puzzle = Puzzle(blank.names, statements, solution, tuple(sayings))
        assert puzzle.question == row["quiz"]
        assert puzzle.answer == row["solution_text"]
        used.update(sayings)
    assert used == set(SAYINGS)
