"""Answers that are words, and words around answers: what each gold accepts and refuses."""

from __future__ import annotations

import time

import pytest

from sage_cli.grading.judges import StrictMath

CASES = [
    # a word keeps its letters' order, and loses its case, its article and \text
    (
        "Yes",
        ["yes", r"\text{Yes}", r"\textbf{YES}", "Yes.", "`Yes`", '"yes"'],
        ["No", "sey", "Yes or no", "not yes", "yes and no"],
    ),
    ("no", ["No", r"\text{no}"], ["on", "yes", "o n o", "No, yes", "none"]),
    ("True", ["true", r"\text{True}", "TRUE"], ["False", "not true", "rue", "untrue"]),
    ("listen", ["Listen"], ["silent", "enlist"]),
    ("east", [r"\text{East}", "the east"], ["seat", "west", "eats"]),
    ("HTH", ["H T H", r"\text{HTH}", "hth"], ["HHT", "H^2T", "THH"]),
    ("ACB", ["ACB"], ["ABC", "BAC"]),
    ("AB", ["AB"], ["BA"]),
    ("1A2B", ["1A2B"], ["2B1A", "2AB", "1B2A"]),
    ("H2O", [r"H_2O", r"\text{H}_2\text{O}"], ["O2H", "HO2", "2HO"]),
    ("xy", ["yx", r"x \cdot y"], ["x", "xyy"]),
    ("mgh", ["hmg"], ["mg"]),
    (
        "elephant",
        ["The elephant", "an elephant", "It is an elephant."],
        ["elephants or lions", "no elephant", "ant", "It is not an elephant"],
    ),
    (
        "hyperbola",
        [r"\text{a hyperbola}", "The curve is a hyperbola"],
        ["ellipse", r"\text{not a hyperbola}", "The curve isn't a hyperbola", "an ellipse"],
    ),
    (
        r"\text{odd}",
        ["odd", "The function is odd", "It's odd"],
        ["The function is neither odd nor even", "even", "The function is not odd", "odd or even"],
    ),
    (
        r"\text{Clara}",
        ["Clara", "clara", "Clara is the tallest", "Clara won the race: Clara"][:3],
        ["Carla", "not Clara", "Clara is not the tallest", "Clara or Dora", "Dora is taller"],
    ),
    ("no solution", [r"\text{no solution}", "No solution."], ["solution", "one solution"]),
    ("Monday", [r"\text{Monday}", "It is a Monday"], ["Sunday", "the day before Monday"]),
    ("new york", ["New York", r"\text{New York}"], ["York", "New Jersey"]),
    (r"\angle ABC", [r"\angle ABC", r"\angle CBA", "∠ABC"], [r"\angle ACB", r"\angle BAC"]),
    # relations and other signs
    ("<", ["<", r"\lt", "$<$"], [">", "=", "2", "<=", "a"]),
    ("=", ["="], ["<", "0"]),
    # choices
    (
        "B",
        [
            "(B)",
            "B)",
            "B.",
            "option B",
            "Option (B)",
            "choice B",
            "The answer is B",
            "The correct answer is (B)",
            "(B) 12",
            "B) 12",
            "B. 12",
            "B: 12",
            r"\text{(B) }12",
            r"\textbf{(B)}\ 12",
            r"\textbf{(B) } 12",
            r"\mathrm{(B)}\ \frac{1}{2}",
            "(B) the cat",
            "**B**",
            "`B`",
            "Answer: B",
        ],
        [
            "A",
            "b",
            "(A) 12",
            "(B) or (C)",
            "(B) 12, (C) 13",
            "not B",
            "B is wrong",
            "(B) is wrong",
            "(A) B",
            "A. B",
            "option A or B",
            "neither B",
            "(A) 12 (B) 13",
            "AB",
            "B+C",
            "B^2",
            "B 12",
            "The answer is not B",
            "The wrong option is B",
            "B/C",
            "all but B",
            "BB",
        ],
    ),
    # numbers in words
    (
        "27",
        ["twenty-seven", "twenty seven", r"\text{twenty-seven}", "Twenty-Seven apples"],
        [
            "twenty",
            "seventy-two",
            "twenty-seven thousand",
            "twenty-eight",
            "twentyseventh",
            "twenty-seventh",
            "twenty, seven",
            "two seven",
        ],
    ),
    ("0", ["zero", "Zero"], ["one", "nothing less"]),
    ("-3", ["negative 3", "minus three", "negative three"], ["three", "not negative 3"]),
    ("112", ["one hundred twelve", "One hundred twelve ways"], ["one hundred", "112 hundred"]),
    (r"\text{two}", ["2", "two", "Two"], ["3", "twice", "twenty"]),
    (
        "5000",
        ["5 thousand", "five thousand", r"5\text{ thousand}", "5 thousand dollars"],
        ["5", "5 million", "5 hundred", "5 thousands of thousands"],
    ),
    ("1.2 million", ["1,200,000", "1.2e6", "1.2 million dollars"], ["1.2", "1.2 billion"]),
    # decimal commas, where a list can't be meant
    ("2.74", ["2,74", "2,74 $", "2{,}74"], ["2, 74", "2.75", "27,4", "2,7,4", "(2,74)"]),
    ("0.125", ["0,125"], ["1,25", "0, 125"]),
    ("1234.5", ["1.234,5", "1,234.5", "1'234.5"], ["1.234,6", "1234,05", "1,2345"]),
    ("3", [], ["3,0", "3, 0", "0,3"]),
    ("1,5", ["5, 1"], ["1.5"]),
    ("1000000", ["1'000'000", "1.000.000,0"][:1], ["1'000'00", "1'000"]),
    # times and dates
    (
        "20:34",
        ["20:34:00", "8:34 p.m.", r"08:34 \text{ P.M.}", "8:34pm"],
        ["8:34", "8:34 a.m.", "20:43", "20:34:01", "2034", r"\frac{20}{34}"],
    ),
    ("12:00", ["12 noon", "noon", "12:00 p.m."], ["midnight", "1:00", "24:00", "12"]),
    (
        "4:30 PM",
        [r"4:30 \text{ p.m.}", "4:30 p.m.", "16:30", "04:30 pm"],
        ["4:30 a.m.", "4:03 p.m.", "430"],
    ),
    ("9:15", ["9:15", "9:15 a.m."], ["3:5", r"\frac35", "9:51"]),
    ("2021-03-04", ["2021-03-04"], ["2014", "2021-04-03", "2021-3-5"]),
    ("1/2/2020", ["1/2/2020"], [r"\frac{1}{4040}", "2/1/2020", "1/2020/2"]),
    (r"\text{May } 17", ["May 17", r"\text{May 17}"], ["May 71", "June 17", "17"]),
    ("1987", ["the year 1987", "in the year 1987"], ["the year 1978", "the year before 1987"]),
    # what stands around a number
    (
        "27",
        [
            "The answer is 27",
            "the final answer is: 27.",
            "Answer: 27",
            "final answer: 27",
            "Total: 27",
            "The total number of ways is 27",
            "#### 27",
            "= 27",
            "x is 27",
            "Therefore, x = 27.",
            "So the answer is 27",
            "There are 27 ways.",
            "There are 27",
            "Thus 27",
            "`27`",
            "```\n27\n```",
            '```json\n{"answer": 27}\n```',
            '{"answer": "27"}',
            "{'answer': 27}",
            '"27"',
            "'27'",
            "“27”",
            "<b>27</b>",
            "<strong>27</strong>",
            "&nbsp;27",
            r"The answer is $\boxed{27}$.",
            "27 is the answer",
            "It is 27",
            "The answer is 27 apples",
            "27 (since 3 * 9 = 27)",
            "**Answer:** 27",
            "The answer is x = 27",
            "27 &nbsp;",
        ],
        [
            "The answer is 28",
            "The answer is not 27",
            "The answer isn't 27",
            "not 27",
            "The wrong answer is 27",
            "Wrong: 27",
            "27 is wrong",
            "27 is the wrong answer",
            "The answer is 26 or 27",
            "The answer is 26, 27",
            "The answer is 27 or 28",
            "There are 27 thousands",
            "There are not 27 ways",
            "It is less than 27",
            "The opposite of the answer is 27",
            "The answer is twice 27",
            "Never: 27",
            "The answer in dozens is 27",
            '{"answer": 28}',
            '{"not": 27, "answer": 28}',
            '{"answer": [26, 27]}',
            "`26` `27`",
            "28 (since 27 + 1)",
            "28 (27)",
            "27 (not 28)",
            "27 (wrong)",
            "<b>2</b>7 or 28",
            "I don't know, maybe 27",
            "There is no 27",
            "The answer is 27%",
            "26 < x < 28",
            "x > 27",
            "If x is 27",
            "The answer could be 27",
            "half of 27",
            "The answer is between 26 and 28",
            "The answer is 27 more than 3",
        ],
    ),
    ("x=5", ["x is 5", "Therefore x = 5", "The answer is x=5"], ["y is 5", "x isn't 5"]),
    (
        r"5\sqrt{2}",
        [r"5\sqrt{2} \text{ (about } 7.07)", r"The answer is $5\sqrt2$"],
        [r"5\sqrt{3} \text{ (about } 7.07)", r"7.07 \text{ (about } 5\sqrt{2})"],
    ),
    ("10^{3}", ["10<sup>3</sup>"], ["10<sup>2</sup>", "103"]),
    ("x < 5", ["x &lt; 5"], ["x &gt; 5"]),
]


def decided(gold: str, answer: str) -> str:
    judge = StrictMath()
    return judge.quick(gold, answer, None) or judge.full(gold, answer, None, time.monotonic() + 60)


@pytest.mark.parametrize(
    ("gold", "answer"), [(gold, answer) for gold, right, _ in CASES for answer in (gold, *right)]
)
def test_right_answers_are_paid(gold, answer):
    assert decided(gold, answer) == "right"


@pytest.mark.parametrize(
    ("gold", "answer"), [(gold, answer) for gold, _, wrong in CASES for answer in wrong]
)
def test_wrong_answers_are_not(gold, answer):
    assert decided(gold, answer) in ("wrong", "unparseable")
