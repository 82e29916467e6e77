"""Where the numbers of a report come from."""

from sage_cli.reports.provenance import sampled_as


def test_a_judge_of_ones_own_is_named_below_a_table():
    provenance = {"sampling": {"temperature": 1.0}, "n": 4}
    own = ("/home/me/mine.py:near", "grading strict by mine.py:near")
    for judge, words in (("math", "grading strict"), own):
        used = {"name": "aime", "problems": 2, "grader": {"mode": "strict", "judge": judge}}
        line = sampled_as({**provenance, "benchmarks": [used]})
        assert line == f"temperature 1; n 4; aime (2 problems); {words}"
