"""Knights and Knaves: a role for every name."""

import logging
from itertools import product

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.grading import Grade, Grader
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import GRADING_VERSION, status_of
from sage_cli.grading.judges import Roles, find_judge
from sage_cli.settings.judge_names import BUILT_IN_JUDGES, MODES

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
        ("Ann is a knight, Bob is not a knight, Zoe is a knave", "right"),
        ("Ann isn't a knave, Bob is not a knight, Zoe is a knave", "right"),
        ("Ann (knight), Bob (knave), Zoe (knave)", "right"),
        ("knight: Ann; knaves: Bob, Zoe", "right"),
        ("Knights: Ann. Knaves: Bob and Zoe.", "right"),
        ("The knight is Ann and the knaves are Bob and Zoe", "right"),
        ("Ann: knight; Bob & Zoe: knaves", "right"),
        ("Ann is a knight, the others are knaves.", "right"),
        ("Ann is the knight; the rest are all knaves", "right"),
        ('{"Ann": "knight", "Bob": "knave", "Zoe": "knave"}', "right"),
        ("So the answer is: Ann is a knight, Bob is a knave and Zoe is a knave", "right"),
        ("(Ann, knight), (Bob, knave), (Zoe, knave)", "right"),
        ("| Ann | knight |\n| Bob | knave |\n| Zoe | knave |", "right"),
        ("Ann must be a knight, Bob and Zoe must be knaves", "right"),
        ("Ann knight, Bob knave, Zoe knave", "right"),
        ("Ann is a knight iff Bob is a knave, Zoe is a knave", "wrong"),
        ("I doubt that Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight, Bob is a knave/knight, Zoe is a knave", "wrong"),
        ("Ann is a knight, Bob is a knave and a knight, Zoe is a knave", "wrong"),
        ("Bob said Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is not a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is not a banana, Bob is a knave, Zoe is a knave", "wrong"),
        ("It is not true that Ann is a knight and Bob is a knave and Zoe is a knave", "wrong"),
        ("It is false that Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("If Ann is a knight then Bob is a knave and Zoe is a knave", "wrong"),
        ("Ann is a knight if Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight or knave, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight, Bob is a knave, Zoe is a knave, or the reverse", "wrong"),
        ("Either Ann is a knight, or Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight, Bob is a knave, and Zoe is a knave is impossible", "wrong"),
        ("Maybe Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Suppose Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is neither, Ann is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("Ann is a knight, the others are knights", "wrong"),
        ("the others are knaves", "wrong"),
        ("All are knights", "wrong"),
        ("Everyone is a knave, Ann is a knight", "wrong"),
        ("knaves: Ann; knights: Bob, Zoe", "wrong"),
        ("knight: Ann, Bob; knave: Zoe", "wrong"),
        ("Ann (knave), Bob (knave), Zoe (knave)", "wrong"),
        ("Ann is a knight, Bob is a knave, Zoe can't be a knave", "wrong"),
        ("Ann or Bob is a knight, Bob and Zoe are knaves", "wrong"),
        ("Ann is a knight or a knave", "wrong"),
        ("Ann is the only knight.", "right"),
        ("Bob and Zoe are the only knaves", "right"),
        ("Everyone is a knave except Ann", "right"),
        ("Everyone except Bob and Zoe is a knight.", "right"),
        ("All are knaves but Ann", "right"),
        ("Ann is a truth-teller, Bob is a liar, Zoe is a liar", "right"),
        ("Bob is the only knave", "wrong"),
        ("Bob is the only knight", "wrong"),
        ("Everyone is a knight except Ann", "wrong"),
        ("Everyone is a knave except Bob", "wrong"),
        ("Not everyone is a knave except Ann", "wrong"),
        ("Everyone is a knave except maybe Ann", "wrong"),
        ("Ann is not the only knight", "wrong"),
        ("Ann is a liar, Bob is a truth-teller, Zoe is a liar", "wrong"),
        ("JoAnn is a knight, Bob is a knave, Zoe is a knave", "wrong"),
        ("27", "unparseable"),
        ("knight, knave, knave", "unparseable"),
    ],
)
def test_every_name_has_its_role(answer, status):
    assert Roles().quick(GOLD, answer, None) == status


def test_other_roles_roles_that_all_share_and_golds_without_any():
    gold = "Ann is a knave, and Bob is a knave."
    for answer, status in (
        ("Both are knaves", "right"),
        ("They are both knaves.", "right"),
        ("Ann and Bob both are knaves", "right"),
        ("knaves: Ann, Bob", "right"),
        ("Both are knights", "wrong"),
        ("not both are knaves", "wrong"),
    ):
        assert Roles().quick(gold, answer, None) == status, answer
    gold = "Briseis is a saint, and Jean-Luc is an angel."
    assert Roles().quick(gold, "Jean-Luc is an angel and Briseis is a saint", None) == "right"
    assert Roles().quick(gold, "Jean-Luc is a saint and Briseis is a saint", None) == "wrong"
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


SOURCE = """
import time

def close(answer, gold):
    if answer == "forever":
        time.sleep(60)
    if answer == "patience":
        raise TimeoutError
    if answer in ("nan", "much", "word"):
        return {"nan": float("nan"), "much": 1.5, "word": "right"}[answer]
    if answer == gold:
        return True
    return max(0.0, 1 - abs(float(answer) - float(gold)) / 10)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("judges") / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def grader(file):
    with Grader(judge=f"{file}:close", timeout_s=1) as grader:
        yield grader


def tagged(answer):
    return f"so <SOLUTION>{answer}</SOLUTION>"


def test_shares_by_hand_and_of_long_programs(grader, file):
    """|7 - 10| / 10 = .3 from 1; a share of 1 is right, all others are wrong."""
    grades = grader.grade_many([("10", tagged(text)) for text in ("10", "10.0", "7", "99")])
    assert grades == [
        Grade("right", "10"),
        Grade("right", "10.0", 1.0),
        Grade("wrong", "7", 0.7),
        Grade("wrong", "99", 0.0),
    ]
    assert [grade.reward for grade in grades] == [1.0, 1.0, 0.7, 0.0]
    again = grader.grade_many([("10", tagged("7")), ("10", "no tags")])
    assert again == [Grade("wrong", "7", 0.7), Grade("unparseable", None)]
    assert grader.grade("1" * 5000, tagged("1" * 5000)).status == "right"


@pytest.mark.parametrize("answer", ["forever", "patience"])
def test_it_has_a_hard_deadline(grader, answer):
    assert grader.grade("10", tagged(answer)).status == "timeout"


def test_a_failure_is_an_error_and_its_line_is_told_once(file, caplog):
    with caplog.at_level(logging.WARNING), Grader(judge=f"{file}:close") as grader:
        statuses = [grader.grade("10", tagged(text)).status for text in ("ten", "nan", "10")]
    assert statuses == ["error", "error", "right"]
    (message,) = (record.getMessage() for record in caplog.records)
    assert "judge 'mine.py:close' fails, and such answers count as errors" in message
    assert "could not convert string to float: 'ten' (mine.py, line 13)" in message


@pytest.mark.parametrize("answer", ["nan", "much", "word"])
def test_what_is_no_share_is_an_error(grader, answer):
    assert grader.grade("10", tagged(answer)).status == "error"


def test_the_identity_is_the_content(file, tmp_path):
    identities = []
    for source in (SOURCE, SOURCE, SOURCE + "\n"):
        copy = tmp_path / f"{len(identities)}" / "mine.py"
        copy.parent.mkdir()
        copy.write_text(source)
        with Grader(judge=f"{copy}:close") as grader:
            identities.append(grader.identity)
    assert identities[0] == identities[1] != identities[2]
    assert identities[0].judge == "mine.py:close"
    with Grader(judge="math") as grader:
        assert grader.identity.version == str(GRADING_VERSION)


def test_golds_may_be_no_answers_and_a_function_must_be_there(file, tmp_path):
    assert check_golds([("a", "3"), ("b", "much")], judge=f"{file}:close") == ["b"]
    (tmp_path / "never.py").write_text("def never(answer, gold):\n    return False")
    assert check_golds([("a", "3")], judge=f"{tmp_path}/never.py:never") == []
    with pytest.raises(ConfigurationError, match="defines no 'clos'"):
        Grader(judge=f"{file}:clos")


def test_a_share_is_right_where_it_is_one_and_each_mode_has_its_judges():
    assert [status_of(one) for one in (1.0, 0.999, 0.0, "timeout")] == [
        "right",
        "wrong",
        "wrong",
        "timeout",
    ]
    # math is judged differently in the two modes, roles alike
    judges = [find_judge(name, mode) for name in BUILT_IN_JUDGES for mode in MODES]
    assert [type(judge).__name__ for judge in judges] == [
        "StrictMath",
        "PlainMathVerify",
        "Roles",
        "Roles",
    ]
