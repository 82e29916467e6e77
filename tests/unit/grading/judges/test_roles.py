"""Knights and Knaves: a role for every name."""

from itertools import product

import pytest

from sage_cli.grading.judges.roles import Roles

GOLD = "Ann is a knight, Bob is a knave, and Zoe is a knave."


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (GOLD, "right"),
        ("Zoe is a knave, Bob is a knave, Ann is a knight", "right"),
        ("(1) Ann is a knight\n(2) Bob is a knave\n(3) Zoe is a knave", "right"),
        ("ANN is a Knight; bob IS a knave; Zoe is a knave", "right"),
        ("Ann: knight, Bob: knave, Zoe: knave", "right"),
        ("Ann = knight, Bob = knave, Zoe = knave", "right"),
        ("Ann - knight\nBob - knave\nZoe - knave", "right"),
        ("**Ann** is a **knight**, **Bob** is a knave, Zoe is a knave", "right"),
        ("Ann is a knight, Bob and Zoe are knaves", "right"),
        ("Ann is a knight; Bob and Zoe are both knaves.", "right"),
        (r"\text{Ann is a knight, Bob is a knave, Zoe is a knave}", "right"),
        ("Ann is a knight, Bob is a knave", "wrong"),
        ("Ann is a knight, Bob is a knight, Zoe is a knave", "wrong"),
        ("Ann is a knight, Ann is a knave, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight, Bob is not a knight, Zoe is a knave", "wrong"),
        ("Ann is a knight or a knave", "wrong"),
        ("JoAnn is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("27", "unparseable"),
        ("knight, knave, knave", "unparseable"),
    ],
)
def test_every_name_has_its_role(answer, status):
    assert Roles().quick(GOLD, answer, None) == status


def test_other_roles_and_names():
    gold = "Briseis is a saint, and Jean-Luc is an angel."
    assert Roles().quick(gold, "Jean-Luc is an angel and Briseis is a saint", None) == "right"
    assert Roles().quick(gold, "Jean-Luc is a saint and Briseis is a saint", None) == "wrong"


def test_a_gold_without_roles_is_an_error():
    assert Roles().quick("27", "27", None) == "error"


NAMES = ["Ann", "Bob", "Zoe", "Jean-Luc", "Emma", "Noah"]


def told(roles):
    *first, last = [f"{name} is a {role}" for name, role in zip(NAMES, roles, strict=False)]
    return f"{', '.join(first)}{',' * (len(first) > 1)} and {last}."


@pytest.mark.parametrize("people", range(2, 7))
def test_every_gold_accepts_itself_and_no_other(people):
    """All 4 assignments of two people to all 64 of six, each beside those before it."""
    golds = [told(roles) for roles in product(("knight", "knave"), repeat=people)]
    for number, gold in enumerate(golds):
        assert Roles().quick(gold, gold, None) == "right"
        assert {Roles().quick(gold, other, None) for other in golds[:number]} <= {"wrong"}
