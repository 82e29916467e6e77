"""Mathematics by Math-Verify alone."""

from sage_cli.grading import Grader


def tagged(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"


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
    statuses = [one.status for one in grades]
    assert statuses == ["right", "wrong", "right", "right", "unparseable", "right"]
