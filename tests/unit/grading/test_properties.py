"""What holds for every answer."""

import json
import string
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.grading import Grader
from sage_cli.grading.judges.registry import find_judge
from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.normalise import MAX_LENGTH, normalise
from sage_cli.grading.status import STATUSES

FRAGMENTS = [
    "27", "x", "\\frac", "{", "}", "(", ")", "[", "]", "\\{", "\\}", "\\sqrt", "^", "_", "=", ",",
    "\\pi", "+", "-", "*", "/", "!", "<", "\\le", "\\infty", "\\cup", "\\pm", "\\text{", " or ",
    "\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\", ".", "1,000", "e", "i", "%", "°", "|", "'",
    "\\boxed{", "$", "\\sin", "\\log_", "\\overline{3}", "\\left", "\\", "\0", "\ud800", "٣", "²",
]  # fmt: skip
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
def test_no_text_raises_in_the_parent(gold, answer):
    for judge in ("math", "roles"):
        status = find_judge(judge, "strict").quick(gold[:MAX_LENGTH], answer[:MAX_LENGTH], None)
        assert status is None or status in STATUSES


@settings(max_examples=15, deadline=None)
@given(pairs=st.lists(st.tuples(soup, soup), min_size=1, max_size=20))
def test_no_text_raises_in_a_worker(grader, pairs):
    grades = grader.grade_many([(gold, f"<SOLUTION>{text}</SOLUTION>") for gold, text in pairs])
    assert len(grades) == len(pairs)
    assert {grade.status for grade in grades} <= set(STATUSES)


@settings(max_examples=200, deadline=None)
@given(golds, spaces, spaces, st.sampled_from(
    ["{}", "${}$", "$${}$$", r"\boxed{{{}}}", r"$\boxed{{{}}}$", r"\({}\)", r"\[{}\]", "**{}**",
     "{}.", r"\boxed{{${}$}}", r"\displaystyle {}"]
))  # fmt: skip
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
    assert Equality()(gold, gold + between + other) is not True
    assert Equality()(gold, other + between + gold) is not True


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_numbers_are_equal_exactly_when_their_values_are(one, other):
    def written(value: Fraction) -> str:
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
