"""The paper's three patterns against sentences written after its descriptions, and Eq. 13."""

import pytest
from stored import Sample, answered, inputs

from sage_cli.analysis.graded_samples import Detector, read_detectors
from sage_cli.analysis.patterns import pattern_shares, patterns
from sage_cli.errors import ConfigurationError

SETUP, STRUCTURE, CONTRADICTION = (
    "constraint setup",
    "structural reasoning",
    "proof by contradiction",
)

CASES = [
    ("Let x be the number of apples.", {SETUP}),
    ("First, let $n$ be even.", {SETUP}),
    (r"Let \(y\) denote the height.", {SETUP}),
    ("We denote the roots by r and s.", {SETUP}),
    ("so that x = 5 and we stop", {SETUP}),
    ("a_1 = 3, hence", {SETUP}),
    ("Let's see. Let us count the cases.", set()),
    ("Let a line through P meet the circle.", set()),
    ("The letter x is written; 3 + 4 = 7", set()),
    ("is it true that x == y", set()),
    ("Every such number is of the form 4k + 1.", {STRUCTURE}),
    ("We decompose into two cases; the decomposition is unique.", {STRUCTURE}),
    ("The formula of this form of life", set()),
    ("Assume for contradiction that it is rational.", {CONTRADICTION}),
    ("Suppose, for the sake of contradiction, there is one.", {CONTRADICTION}),
    ("Assume the contrary.", {CONTRADICTION}),
    ("This leads to a contradiction.", {CONTRADICTION}),
    ("which is a contradiction", {CONTRADICTION}),
    ("Assume it holds. There is no contradiction here.", set()),
    ("On the contrary, we assume nothing.", set()),
    (
        "Denote by p a prime of the form 4k + 3; this leads to a contradiction",
        {SETUP, STRUCTURE, CONTRADICTION},
    ),
    ("LET X BE GIVEN", {SETUP}),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_papers_patterns(text, expected):
    assert {one.name for one in read_detectors() if one.shown_by(text)} == expected


def detector(name, *expressions):
    import re

    return Detector(name, tuple(re.compile(one, re.IGNORECASE) for one in expressions))


def test_equation_13_by_hand(tmp_path):
    right, wrong = Sample("let x"), Sample("let x", "wrong")
    plain = Sample("nothing")
    base = answered(
        tmp_path, "base", {"a": [right, plain, wrong], "b": [plain, wrong, wrong], "c": [wrong] * 3}
    )
    run = answered(
        tmp_path, "run", {"a": [right, right, wrong], "b": [wrong] * 3, "c": [right, plain, plain]}
    )
    shares = pattern_shares(base, (detector("setup", "let x"),))["setup"]
    # a: 1 of 2 right ones; b: 0 of 1; c has no right one
    assert shares[:2].tolist() == [0.5, 0.0]
    assert shares[2] != shares[2]
    document = patterns(inputs(base, run, detectors=(detector("setup", "let x"),)))
    by_policy = {row["policy"]: row["frequency"] for row in document.data["frequencies"]}
    # run: a 1, c 1/3: mean 2/3; paired, on a alone, 1 - 1/2
    assert by_policy == pytest.approx({"base": 0.25, "run": 2 / 3})
    (difference,) = document.data["differences"]
    assert difference["difference"] == pytest.approx(0.5)
    assert "base on arithmetic: 2 of 3 problems have a correct solution, 3 in all" in document.notes


def test_no_right_solution_leaves_frequencies_undefined(tmp_path):
    only_wrong = answered(tmp_path, "base", {"a": [Sample("let x", "wrong")]})
    document = patterns(inputs(only_wrong, detectors=read_detectors()))
    assert {row["frequency"] for row in document.data["frequencies"]} == {None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one: [unclosed, '(']", r"pattern 'one' can't be read: \("),
        ("one: 'of the form'", "pattern 'one' must be a list of expressions"),
        ("", "contains no patterns"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_detectors(path)


def test_patterns_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("checks: ['\\bcheck', 'verify']\n")
    (mine,) = read_detectors(path)
    assert mine.shown_by("We Verify this")
    assert not mine.shown_by("a paycheck")
