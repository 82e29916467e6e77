"""Who decides: one judge per kind of answer, found by name in `registry.py`.

`strict.py` and `plain.py` judge mathematics in the two grading modes, `roles.py` who has which
role; `judge.py` is what a judge is, `contract.py` the tests that a judge of one's own inherits,
`plugins.py` how other packages' judges are found. What makes two formulas equal isn't here but in
`sage_cli.grading.mathematics`.
"""

from sage_cli.grading.judges.judge import Judge

__all__ = ["Judge"]
