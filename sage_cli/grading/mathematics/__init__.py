"""The rules of equal mathematical answers; they know no completions or judges.

`normalise.py` (with `vocabulary.py`) brings both to one notation; `literal.py` and `units.py` read
numbers, `structure.py` tuples, sets and intervals, `wording.py` words and choices, `expression.py`
(with `arithmetic.py`) values, which `numerical.py` compares. `equality.py` puts the rules in order;
`mathverify.py` is asked last, and only in worker processes.
"""
