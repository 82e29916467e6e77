"""Mathematics by Math-Verify alone."""

import pytest
from math_verify import parse, verify

from sage_cli.grading import Grader

IN_MATHEMATICS = [  # what brings an environment is handed over as it is
    (gold, answer)
    for gold, answers in {
        r"$\frac{1}{3}$": [
            r"$\frac13$",
            r"\(1/3\)",
            r"\[ \frac{2}{6} \]",
            r"$k = \frac{1}{3}$",
            r"$0.333$",
            r"The answer is $\frac{1}{3}$, not $\frac{1}{2}$.",
            r"so $\boxed{\tfrac13}$.",
        ],
        r"$28\%$": ["$28$ percent", "$28$ %", r"$28\%$", r"\boxed{28\%}", r"$0.28$", "$29$ %"],
        r"\boxed{1,-2}": ["$1$ and $-2$", "$x=1$ or $x=-2$", r"$\{-2,1\}$", "$1$", "$(1,-2)$"],
        "$[0,1)$": ["$[0,1)$", "$[0,1]$", r"$0 \le x < 1$"],
        r"$(3,\frac{\pi}{2})$": [r"$\left(3,\frac{\pi}{2}\right)$", r"$(\frac{\pi}{2},3)$"],
        r"$\text{Evelyn}$": [r"$\boxed{\text{Evelyn}}$", r"$\text{Debra}$"],
        r"$\sqrt{66}$": [r"It is $\sqrt{66}$.", r"$\sqrt{67}$", r"$66$"],
        "$4t$": ["$4$", "$4t$"],
        "$12:00$": ["$12:00$", "$1:00$"],
    }.items()
    for answer in answers
]
AS_TEXT = [
    # bare: in a box, and where it holds no LaTeX as it stands too
    ("27", "The answer is 27", "right"),
    ("27", "27.", "right"),
    ("27", "**27**", "right"),
    ("1000", "1 000", "right"),
    ("1000.99", "1000,99", "right"),
    (r"28\%", "28 percent", "right"),
    ("1,-2", "1 and -2", "right"),
    (r"\sqrt{66}", r"\sqrt{66}", "right"),
    ("(3,4]", "(3,4]", "right"),
    (r"\text{even}", "even", "right"),
    ("27", "28", "wrong"),
    ("113", r"2\sqrt{113}", "wrong"),  # LaTeX that is read in part isn't read as text
    ("27", "27 or 28", "wrong"),
]


def tagged(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"


@pytest.mark.slow
def test_math_verify_mode_is_the_plain_recipe():
    with Grader(workers=2, mode="math-verify", timeout_s=60) as plain:
        grades = plain.grade_many(
            [
                ("27", tagged("27")),
                ("27", tagged("28")),
                ("27", tagged("0=27")),  # paid by the recipe, refused by strict
                ("4t", tagged("4")),  # the unit stripper's t
                ("27", "27"),
                (r"\sqrt{2}", tagged(r"\frac{2}{\sqrt{2}}")),
            ]
        )
        delimited = plain.grade_many([(gold, tagged(a)) for gold, a in IN_MATHEMATICS])
        bare = plain.grade_many([(gold, tagged(a)) for gold, a, _ in AS_TEXT])
    statuses = [one.status for one in grades]
    assert statuses == ["right", "wrong", "right", "right", "unparseable", "right"]
    direct = [verify(parse(gold), parse(answer)) for gold, answer in IN_MATHEMATICS]
    assert [one.status == "right" for one in delimited] == direct
    assert 10 < sum(direct) < len(direct)
    found = [
        (gold, one.extracted, one.status) for (gold, *_), one in zip(AS_TEXT, bare, strict=True)
    ]
    assert found == AS_TEXT
