"""The rules of equal mathematical answers; they know no completions or judges.

`notation.py` brings both to one notation (its table STEPS) and reads words and choices;
`numbers.py` reads numbers with their units, `quantities.py` amounts in any unit, `structure.py`
tuples, sets and intervals, `bound.py` bound variables, `pieces.py` functions by cases,
`expression.py` values, which are computed by `values.py`. `equality.py` puts the rules in order
(its table RULES); `mathverify.py` is asked last, and only in worker processes.
"""
