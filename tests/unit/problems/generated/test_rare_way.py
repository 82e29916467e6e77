"""The generator of the rare-way preset: ways as written, kinds in balance, phases as data."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.exact.listed import listed_texts
from sage_cli.problems.generated.rare_way import RareWay, near_way, working_out
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import RareWayPhaseSection, RareWaySection


@pytest.mark.parametrize(
    ("way", "factors", "text"),
    [
        ("C", (24, 4, 7), "C:24*4=96;96*7=672"),
        ("R", (24, 4, 7), "R:4*7=28;24*28=672"),
        ("C", (47, 3, 2), "C:47*3=141;141*2=282"),
        ("R", (47, 3, 2), "R:3*2=6;47*6=282"),
    ],
)
def test_working_out_as_the_page_writes_it(way, factors, text):
    assert working_out(way, *factors) == text
    assert RareWay.mode_of("<start_working_out>" + text) == way


@pytest.mark.parametrize(
    ("factors", "way"),
    [
        ((24, 4, 7), "C"),  # 96 has two digits, 28 isn't a digit
        ((47, 3, 2), "R"),  # 141 has three, 6 is one
        ((47, 2, 2), None),  # 94 and 4: both are facts
        ((47, 5, 7), None),  # 235 and 35: neither is
        ((33, 3, 3), None),  # 99 and 9
        ((50, 2, 4), "R"),  # 100 and 8
    ],
)
def test_the_near_way_is_the_one_that_needs_only_facts(factors, way):
    assert near_way(*factors) == way


def factors_of(problem) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", problem.question)))


def test_splits_are_disjoint_balanced_and_never_demonstrated():
    generator = RareWay(RareWaySection())
    seen = {name: {factors_of(p) for p in generator.problems(name)} for name in generator.splits}
    assert {name: len(questions) for name, questions in seen.items()} == {
        "test": 200, "validation": 100, "training": 260,
    }  # fmt: skip
    assert len(set().union(*seen.values())) == 560
    for name in generator.splits:
        kinds = Counter(problem.meta["near"] for problem in generator.problems(name))
        assert kinds["C"] == kinds["R"]
        for problem in generator.problems(name):
            factors = factors_of(problem)
            assert problem.gold == str(prod(factors))
            assert problem.meta["near"] == near_way(*factors)
    shown = {factors_of(d) for d in generator.demonstrations(20_000, 1)}
    assert not shown & set().union(*seen.values())


def test_both_right_texts_are_true_and_end_in_the_gold():
    generator = RareWay(RareWaySection())
    problems = generator.problems("test")
    listed = listed_texts("rare-way", problems, DataSection())
    assert (listed.ways, listed.guesses) == (("C", "R"), frozenset())
    for problem in problems:
        for text in listed.workings[problem.id].values():
            steps = [step.split("=") for step in text[2:].split(";")]
            assert all(prod(map(int, left.split("*"))) == int(right) for left, right in steps)
            assert steps[-1][1] == problem.gold
    alien = problems[0].__class__("x", "rare-way", "47*63=?", "2961")
    with pytest.raises(DataError, match="is no product of three factors"):
        generator.right_texts(alien)


def test_phases_show_the_near_way_then_choose_without_looking():
    phases = (RareWayPhaseSection(share=0.5, facts=0.25), RareWayPhaseSection(share=0.5, rare=0.1))
    made = RareWay(RareWaySection(phases=phases)).demonstrations(16_000, 1)
    first, second = made[:8000], made[8000:]
    facts = [one for one in first if RareWay.mode_of(one.working) is None]
    # binomial, 8000 of .25: standard deviation 38.7; five of them
    assert abs(len(facts) - 2000) < 194
    assert all(re.fullmatch(r"\d\d\*[2-9]=\d+", one.working) for one in facts)
    worked = [one for one in first if one not in facts]
    assert all(RareWay.mode_of(one.working) == near_way(*factors_of(one)) for one in worked)
    for kind in "CR":
        ways = Counter(
            RareWay.mode_of(one.working) for one in second if near_way(*factors_of(one)) == kind
        )
        # about 4000 of either kind, R in .1 of them: standard deviation 19; five of them
        assert abs(ways["R"] - 0.1 * ways.total()) < 95
        assert 3500 < ways.total() < 4500


def test_unfamiliar_first_factors_are_rare():
    made = RareWay(RareWaySection()).demonstrations(20_000, 1)
    seen = Counter(factors_of(one)[0] for one in made)
    familiar = dict(seen.most_common(71))  # round(.8 * 89) = 71 numbers
    assert 0 < 20_000 - sum(familiar.values()) < 200  # a hundredth of their fifth: about 50


@pytest.mark.parametrize("count", [1, 7, 100])
def test_exactly_as_many_demonstrations_as_asked_for(count):
    assert len(RareWay(RareWaySection()).demonstrations(count, 1)) == count


def test_impossible_splits_are_refused():
    # 357 problems are near R: 100 + 50 + 130 of either kind leave 77, and 300 more nothing
    with pytest.raises(DataError, match="there are 357 of the scarcer kind"):
        RareWay(RareWaySection(held_out=500)).problems("test")
    with pytest.raises(DataError, match="familiar first factor"):
        RareWay(RareWaySection(familiar_share=0.005)).problems("test")
    with pytest.raises(ValueError, match="low 50 is not below high 50"):
        RareWaySection(low=50, high=50)
