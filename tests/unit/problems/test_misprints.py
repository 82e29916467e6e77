"""Known misprints of published benchmarks."""

import json

import pytest

from sage_cli.problems.misprints import MISPRINTS, known_misprints
from sage_cli.problems.problem import Problem

PENTAGON = r"Let $ABCDE$ be a convex pentagon with $AB = 14$ and $\angle {} = 60°$."
QUARTIC = r"""There are exactly three positive real numbers $k$ such that the function
$$f(x) = \frac{(x - 18)(x - 72)(x - 98)(x - k)}{x}$$ """
INTERSECTIONS = r"of \[y=4 g(f(\sin (2 \pi x))) \quad\text{ and }\quad x=4 g(f(\cos (3 \pi y))).\]"


@pytest.mark.parametrize(
    ("question", "gold", "name"),
    [
        (PENTAGON.replace("{}", "ZBA"), "60", "AIME 2025 I-14"),
        (PENTAGON.replace("{}", "B = \\angle E"), "60", None),
        (QUARTIC + "achieves its minimum at exactly two values of $x$.", "240", "AIME 2025 II-15"),
        (QUARTIC + "defined over the positive real numbers achieves its minimum", "240", None),
        (QUARTIC + "for $x>0$ achieves its minimum value", "240", None),
        (INTERSECTIONS, "384", "AIME 2024 I-12"),
        (INTERSECTIONS, "385", None),
        (
            "Jim decides to go to college to earn some more money.  It takes",
            "4",
            "GSM8K, Jim goes to college",
        ),
        ("Jim decides to go to college to earn some more money.  It takes", "6", None),
        ("What is 1 + 1?", "2", None),
    ],
)
def test_a_misprint_is_known_by_its_text(question, gold, name):
    known = known_misprints([Problem("id", "mine", question, gold)])
    assert [misprint.name for _, misprint in known] == ([name] if name else [])


def test_the_published_rows_have_those_that_are_known(shared):
    named = set()
    for file in ("aime2025-I", "aime2025-II", "aime2024", "gsm8k_test"):
        path = shared / f"data/benchmarks/{file}.jsonl"
        if not path.exists():
            pytest.skip(f"no {path.name} beside the published rows")
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            gold = str(row["answer"]).rpartition("####")[2].strip()
            problem = Problem("id", file, row.get("problem") or row["question"], gold)
            named |= {misprint.name for _, misprint in known_misprints([problem])}
    assert named == {"AIME 2025 I-14", "GSM8K, Jim goes to college"}
    assert named < {misprint.name for misprint in MISPRINTS}
