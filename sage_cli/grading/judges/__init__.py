"""One judge per kind of answer, found by name in `registry.py`.

`math_judges.py` judges mathematics in the two grading modes, `roles.py` assignments of roles;
`judge.py` is the interface, `contract.py` the tests that a judge of one's own inherits. The rules
of equal formulas are in `sage_cli.grading.mathematics`.
"""

from sage_cli.grading.judges.judge import Judge

__all__ = ["Judge"]
