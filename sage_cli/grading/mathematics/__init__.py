"""The rules of equal mathematical answers; they know no completions or judges.

`notation.py` brings both to one notation and reads words and choices; `numbers.py` reads numbers
with their units, `structure.py` tuples, sets and intervals, `expression.py` values, which are
computed by `values.py`. `equality.py` puts the rules in order; `mathverify.py` is asked last, and
only in worker processes.
"""
