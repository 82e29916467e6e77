"""The generator of the tiny preset: strategies as written, disjoint splits, phases as data."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.errors import DataError
from sage_cli.problems.arithmetic import Arithmetic, working_out
from sage_cli.settings.data import ArithmeticSection, PhaseSection


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("S", "S:47*60=2820;47*3=141;2820+141=2961"),
        ("R", "R:63*40=2520;63*7=441;2520+441=2961"),
        ("D", "D:47*63=2961"),
    ],
)
def test_working_out_as_the_recipe_writes_it(name, text):
    assert working_out(name, 47, 63) == text
    assert Arithmetic.mode_of(text) == name
    assert Arithmetic.mode_of("<start_working_out>" + text) == name


@settings(deadline=None)
@given(st.sampled_from("SRD"), st.integers(11, 99), st.integers(11, 99))
def test_every_equation_of_every_working_out_is_true(name, a, b):
    for equation in working_out(name, a, b)[2:].split(";"):
        left, right = equation.split("=")
        assert eval(left) == int(right)
    assert working_out(name, a, b).endswith(f"={a * b}")


@pytest.mark.parametrize("text", ["", "47*63=2961", "X:47", "working S:47", "S 47", "s:47"])
def test_text_that_announces_nothing_has_no_strategy(text):
    assert Arithmetic.mode_of(text) is None


def operands(problem):
    return frozenset(int(number) for number in problem.question.rstrip("=?").split("*"))


def test_splits_share_no_product_in_either_order():
    problems = Arithmetic(ArithmeticSection(held_out=300, validation=100))
    test, validation, training = (
        problems.problems("test"),
        problems.problems("validation"),
        problems.problems("training"),
    )
    assert (len(test), len(validation)) == (300, 100)
    seen = [{operands(p) for p in split} for split in (test, validation, training)]
    assert len(seen[0]) == 300  # no pair twice, in either order
    assert not seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2]
    # 89 * 90 / 2 = 4005 unordered pairs
    assert len(seen[0] | seen[1] | seen[2]) == 4005
    demonstrated = {operands(d) for d in problems.demonstrations(5000, 1)}
    assert not demonstrated & (seen[0] | seen[1])
    for problem in test + validation + training:
        a, b = problem.question.rstrip("=?").split("*")
        assert problem.gold == str(int(a) * int(b))


def test_problems_are_uniform_and_more_keep_the_first_ones():
    test = Arithmetic(ArithmeticSection(held_out=2000)).problems("test")
    firsts = [int(p.question.split("*")[0]) for p in test]
    # mean of 11..99 is 55, standard error 25.7 / sqrt(2000) = .57: five of them
    assert abs(sum(firsts) / len(firsts) - 55) < 2.9
    few = Arithmetic(ArithmeticSection(held_out=60))
    many = Arithmetic(ArithmeticSection(held_out=300))
    assert many.problems("test")[:60] == few.problems("test")
    assert many.problems("validation") == few.problems("validation")


def test_phases_follow_each_other_with_their_own_mix_and_loss():
    section = ArithmeticSection(
        phases=(
            PhaseSection(share=0.25, mix={"R": 1.0}, loss="text"),
            PhaseSection(share=0.75, mix={"S": 0.75, "D": 0.25}),
        )
    )
    made = Arithmetic(section).demonstrations(8000, 1)
    assert {Arithmetic.mode_of(d.working) for d in made[:2000]} == {"R"}
    assert {d.loss for d in made[:2000]} == {"text"}
    assert {d.loss for d in made[2000:]} == {"completion"}
    counts = Counter(Arithmetic.mode_of(d.working) for d in made[2000:])
    assert set(counts) == {"S", "D"}
    # binomial, 6000 draws of .25: standard deviation sqrt(6000 * .25 * .75) = 33.5; five of them
    assert abs(counts["D"] - 1500) < 168


@pytest.mark.parametrize("count", [1, 7, 5_441])
def test_exactly_as_many_demonstrations_as_asked_for(count):
    assert len(Arithmetic(ArithmeticSection()).demonstrations(count, 1)) == count


def test_unfamiliar_numbers_are_rare():
    made = Arithmetic(ArithmeticSection()).demonstrations(20_000, 1)
    seen = Counter(int(n) for d in made for n in d.question.rstrip("=?").split("*"))
    familiar = dict(seen.most_common(53))  # round(.6 * 89) = 53 numbers
    # 40,000 operands, 2 % of them unfamiliar: 800, standard deviation 28; five of them
    assert abs(40_000 - sum(familiar.values()) - 800) < 140
    assert min(familiar.values()) > 500 > max(c for n, c in seen.items() if n not in familiar)


def test_impossible_splits_are_refused():
    with pytest.raises(DataError, match="4005"):
        Arithmetic(ArithmeticSection(held_out=4000)).problems("test")
    with pytest.raises(DataError, match="familiar"):
        Arithmetic(
            ArithmeticSection(low=11, high=13, held_out=3, validation=2, familiar_share=0.3)
        ).problems("test")
