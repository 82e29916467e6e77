"""Assignments to several unknowns, read from normal forms."""

import pytest

from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.solutions import as_answer, read_solutions


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("m = 12, n = 35", ("m", "n"), (("12", "35"),)),
        ("(x,y) = (5,8)", ("x", "y"), (("5", "8"),)),
        ("(x,y) = (5,8), (8,5)", ("x", "y"), (("5", "8"), ("8", "5"))),
        ("p=5, q=2; p=7, q=2", ("p", "q"), (("5", "2"), ("7", "2"))),
        ("p=5, q=2 or q=3, p=7", ("p", "q"), (("5", "2"), ("7", "3"))),
        (r"|AB| = 3, \angle A = 30^\circ", ("|AB|", r"\angle A"), (("3", "30°"),)),
        ("A = (1,2), B = (3,4)", ("A", "B"), (("(1,2)", "(3,4)"),)),
    ],
)
def test_solutions_are_read(text, names, values):
    rows = [dict(zip(names, row, strict=True)) for row in values]
    assert read_solutions(normalise(text)) == rows


@pytest.mark.parametrize(
    "text",
    [
        "12, 35",
        "x = 5",
        "x = 1, x = -2",
        "x = 1, 2",
        "m = 12 or n = 35",
        "p=5, q=2, p=7",
        "x + y = 5, x - y = 1",
        "m = 3 * 4 = 12, n = 35",
        "(x,y) = (1,2,3)",
        "(x,y) = (1,2], z = 3",
        "(x,y) = 3, z = 4",
        "(1,2), (x,y) = (3,4)",
        "x = , y = 2",
        "= 1, = 2",
        "x = 1,",
        "x",
        "(x,3) = (1,3)",
    ],
)
def test_anything_else_is_no_set_of_solutions(text):
    assert read_solutions(normalise(text)) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("y = 9, x = 4", "(4,9)"),  # coordinates have an order of their own
        ("n = 9, k = 4", "(9,4)"),  # other unknowns come as they were written
        ("y = 9, x = 4, k = 1", "(9,4,1)"),
        ("x_1 = 4, x_2 = -7", "4,-7"),  # two values of x
        ("p=3, q=8; p=5, q=8", "(3,8),(5,8)"),
    ],
)
def test_what_is_meant_where_the_gold_has_no_names(text, meant):
    assert as_answer(read_solutions(normalise(text))) == meant
