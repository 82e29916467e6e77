"""Golds are counted by what they read as, and those that are hardly answers are named."""

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.gold_kinds import describe_golds
from sage_cli.problems.problem import Problem


@pytest.mark.parametrize(
    ("gold", "doubt"),
    [
        ("['7', 'seven']", "Python or JSON"),
        ('{"value": 7}', "Python or JSON"),
        ("array([7.])", "Python or JSON"),
        ("nan", "a missing value"),
        ("None", "a missing value"),
        ("notfound", "a missing value"),
        ("proof", "a missing value"),
        ("3 + 4 = 7\n#### 7", "a worked solution"),
        (r"We get $\boxed{7}$.", "a worked solution"),
        ("The answer is 7", "a sentence"),
        ("We add three and four, so 7.", "a sentence"),
        ("7 " * 200, "a long text"),
        ("???", "a text"),
    ],
)
def test_golds_that_are_hardly_answers_are_named(gold, doubt):
    problems = [Problem("a", "toy", "1+1=?", "2"), Problem("b", "toy", "q", gold)]
    with pytest.raises(
        DataError, match="1 of 2 reference answers do not look like mathematical answers"
    ) as refused:
        describe_golds(problems)
    assert doubt in refused.value.cause


@pytest.mark.timeout(60)
def test_golds_are_counted_by_what_they_read_as():
    golds = {
        "number": ["7", "-0.5", "1,234", r"\$3.50", r"50\%", "1e-5"],
        "formula": [
            r"\frac{1}{2}",
            "x^2+1",
            "[0, 1)",
            r"\{1, 2\}",
            "3:4",
            "12 km",
            "(1, 2)",
            r"\text{increasing on } (0, 1)",
        ],
        "choice": ["A", "(B)", r"\text{(C)}"],
        "assignment": ["x = 7", "x=1, y=2"],
        "word": [
            "Yes",
            r"\text{Yes}",
            "no solution",
            "Mrs. Doyle's class",
            "Übung",
            "east",
            "mother-in-law",
        ],
    }
    golds["formula"].append(f"{'a' * 200}(C)")  # whose letters are split in no more than one way
    for kind, texts in golds.items():
        counted = describe_golds([Problem("a", "toy", "q", text) for text in texts])
        assert counted == f"{len(texts)} {kind}s"
