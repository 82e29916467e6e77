"""What holds for every answer."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.grading import Grader
from sage_cli.grading.grades import STATUSES
from sage_cli.grading.judges import find_judge
from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.notation import MAX_LENGTH, normalise

FRAGMENTS = [
    "27",
    "x",
    "\\frac",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\\{",
    "\\}",
    "\\sqrt",
    "^",
    "_",
    "=",
    ",",
    "\\pi",
    "+",
    "-",
    "*",
    "/",
    "!",
    "<",
    "\\le",
    "\\infty",
    "\\cup",
    "\\pm",
    "\\text{",
    " or ",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "&",
    "\\\\",
    ".",
    "1,000",
    "e",
    "i",
    "%",
    "°",
    "|",
    "'",
    "\\boxed{",
    "$",
    "\\sin",
    "\\log_",
    "\\overline{3}",
    "\\left",
    "\\",
    "\0",
    "\ud800",
    "٣",
    "²",
]
soup = st.one_of(
    st.text(max_size=80),
    st.text(alphabet=string.printable, max_size=80),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
)
integers = st.integers(-(10**9), 10**9)
golds = st.one_of(
    integers.map(str),
    st.fractions(min_value=-1000, max_value=1000, max_denominator=999).map(
        lambda value: rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    ),
    st.decimals(-1000, 1000, places=3).map(str),
    st.sampled_from([r"7\pi", r"2\sqrt{113}", "4t", "x^2+1", "(3,4]", "1,-2", "(6,31,-1)", "52_8"]),
)
spaces = st.text(alphabet=" \n\t", max_size=3)


@settings(max_examples=250, deadline=None)
@given(soup.filter(str.strip), soup.filter(str.strip))
@pytest.mark.slow
def test_no_text_raises_in_the_parent(gold, answer):
    for judge in ("math", "roles"):
        status = find_judge(judge, "strict").quick(gold[:MAX_LENGTH], answer[:MAX_LENGTH], None)
        assert status is None or status in STATUSES


@settings(max_examples=15, deadline=None)
@given(pairs=st.lists(st.tuples(soup, soup), min_size=1, max_size=20))
@pytest.mark.slow
def test_no_text_raises_in_a_worker(grader, pairs):
    grades = grader.grade_many([(gold, f"<SOLUTION>{text}</SOLUTION>") for gold, text in pairs])
    assert len(grades) == len(pairs)
    assert {grade.status for grade in grades} <= set(STATUSES)


@settings(max_examples=200, deadline=None)
@given(
    golds,
    spaces,
    spaces,
    st.sampled_from(
        [
            "{}",
            "${}$",
            "$${}$$",
            r"\boxed{{{}}}",
            r"$\boxed{{{}}}$",
            r"\({}\)",
            r"\[{}\]",
            "**{}**",
            "{}.",
            r"\boxed{{${}$}}",
            r"\displaystyle {}",
        ]
    ),
)
def test_a_right_answer_stays_right_in_other_clothes(gold, before, after, clothes):
    assert Equality()(gold, before + clothes.format(before + gold + after) + after) is True


@settings(max_examples=200, deadline=None)
@given(integers, st.sampled_from([",", "{,}", r",\!", r"\,", " ", "\u2009", r"{,}\!"]))
def test_thousands_separators_do_not_matter(number, separator):
    written = f"{number:,}".replace(",", separator)
    assert Equality()(str(number), written) is True
    assert Equality()(written, str(number)) is True


@settings(max_examples=200, deadline=None)
@given(
    golds, golds, st.sampled_from([", ", " or ", " and ", r" \text{ or } ", "; ", " \\quad ", "\n"])
)
def test_a_second_answer_makes_it_wrong(gold, other, between):
    if Equality()(gold, other) is not False or normalise(gold + between + other) == normalise(gold):
        return
    if any(Equality()(item, other) for item in gold.split(",")):
        return  # 1 behind 1,-2 names an item again, which is no other answer
    assert Equality()(gold, gold + between + other) is not True
    assert Equality()(gold, other + between + gold) is not True


values = st.integers(-99, 99)
joints = st.sampled_from([", ", "; ", r" \text{ and } ", " and ", "\n", r",\quad ", r" \land "])
clothed = st.sampled_from(["{}", "${}$", r"\boxed{{{}}}", r"$\boxed{{{}}}$"])


@settings(max_examples=300, deadline=None)
@given(st.lists(values, min_size=2, max_size=4), st.randoms(), joints, st.data())
@pytest.mark.slow
def test_assignments_are_right_in_any_order_and_with_their_values_alone(numbers, draw, joint, data):
    names = ["m", "n", "k", "b_3"][: len(numbers)]
    assigned = [f"{name} = {number}" for name, number in zip(names, numbers, strict=True)]
    gold = ", ".join(assigned)
    shuffled = draw.sample(assigned, len(assigned))
    assert Equality()(gold, joint.join(shuffled)) is True
    assert Equality()(gold, "(" + ", ".join(map(str, numbers)) + ")") is True
    place = data.draw(st.integers(0, len(numbers) - 1))
    name, other = names[place], numbers[place] + data.draw(st.integers(1, 9))
    for answer in (
        joint.join([*shuffled, f"{name} = {other}"]),  # a second value of one of them
        joint.join([*shuffled, f"r = {other}"]),
        joint.join([*shuffled, str(other)]),
        joint.join([*assigned[:place], f"{name} = {other}", *assigned[place + 1 :]]),
        joint.join(shuffled[1:]),
        "(" + ", ".join(map(str, [*numbers, other])) + ")",
        "(" + ", ".join(map(str, [*numbers[:place], other, *numbers[place + 1 :]])) + ")",
    ):
        assert Equality()(gold, answer) is not True, answer


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(values, values), min_size=1, max_size=3, unique=True),
    st.randoms(),
    joints,
    clothed,
    st.tuples(values, values),
)
@pytest.mark.slow
def test_solutions_are_right_however_they_are_joined_and_how_often(
    points, draw, joint, clothes, other
):
    written = [f"({x},{y})" for x, y in points]
    gold = ",".join(written)
    again = draw.sample([*written, draw.choice(written)], len(written) + 1)
    assert Equality()(gold, joint.join(clothes.format(one) for one in again)) is True
    assert Equality()(gold, f"(x,y) = {joint.join(again)}") is True
    named = [f"p = {x}, q = {y}" for x, y in draw.sample(points, len(points))]
    assert Equality()(gold, "; ".join(named)) is True
    assert Equality()("; ".join(named), gold) is True
    if other not in points:
        extra = draw.sample([*again, "({},{})".format(*other)], len(again) + 1)
        assert Equality()(gold, joint.join(clothes.format(one) for one in extra)) is not True
        assert Equality()(gold, f"(x,y) = {joint.join(extra)}") is not True
        assert Equality()(gold, "; ".join([*named, "p = {}, q = {}".format(*other)])) is not True
        assert Equality()(gold, " or ".join(extra)) is not True


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["|AB|", "A:B", r"\frac{a}{b}", "S_{1}:S_{2}", "P(X=2)", r"\sin A", "f(3)"]),
    golds.filter(lambda gold: gold not in ("4t", "x^2+1", "(3,4]", "1,-2", "(6,31,-1)", "52_8")),
    golds,
    joints,
)
@pytest.mark.slow
def test_the_value_alone_answers_a_gold_with_a_name(name, gold, other, joint):
    assert Equality()(f"{name} = {gold}", gold) is True
    assert Equality()(f"{name} = {gold}", f"{name} = {gold}") is True
    if Equality()(gold, other) is False:
        assert Equality()(f"{name} = {gold}", other) is not True
        assert Equality()(f"{name} = {gold}", gold + joint + other) is not True
        assert Equality()(f"{name} = {gold}", other + joint + gold) is not True


@settings(max_examples=300, deadline=None)
@given(golds, golds, joints, st.integers(2, 4), clothed)
def test_an_answer_given_again_stays_right_until_another_is_given(
    gold, other, joint, times, clothes
):
    if "," in gold or gold == "52_8" or (joint == "\n" and gold[0] == "-"):
        return  # a line that begins with a minus goes on with the one before it
    again = [clothes.format(gold)] * times
    assert Equality()(gold, joint.join(again)) is True
    if Equality()(gold, other) is False and "," not in other:
        for place in range(times + 1):
            answers = [*again[:place], clothes.format(other), *again[place:]]
            assert Equality()(gold, joint.join(answers)) is not True


@settings(max_examples=200, deadline=None)
@given(st.decimals(1, 100, places=3), st.sampled_from([", ", " or ", " and "]))
def test_two_answers_within_the_tolerance_are_two_answers(number, joint):
    near = number * 1001 / 1000
    assert Equality(0.01)(str(number), str(near)) is True
    assert Equality(0.01)(str(number), f"{number}{joint}{near}") is not True


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
@pytest.mark.slow
def test_numbers_are_equal_exactly_when_their_values_are(one, other):
    def written(value):
        return f"{value.numerator}/{value.denominator}"

    assert Equality()(written(one), written(other)) is (one == other)
    assert Equality()(written(one), rf"x = \frac{{{one.numerator}}}{{{one.denominator}}}") is True


@settings(max_examples=100, deadline=None)
@given(golds)
def test_a_gold_accepts_itself(gold):
    assert Equality()(gold, gold) is True


def test_tasks_and_grades_survive_any_text(grader):
    for one in (grader, Grader(judge="roles")):
        grade = one.grade("x", "<SOLUTION>\ud800\0</SOLUTION>")
        assert json.loads(json.dumps(grade.extracted)) == "\ud800\0"
