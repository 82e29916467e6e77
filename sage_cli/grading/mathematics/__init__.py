"""The rules of equal mathematical answers; they know no completions or judges.

`notation.py` brings both to one notation (its table STEPS). `sentences.py` finds the answer that a
sentence gives, `wording.py` compares words, choices, dates, `english.py` has the words that change
an answer, `names.py` says which texts name a value. `numbers.py` reads numbers with their units,
`quantities.py` amounts in any unit, `structure.py` tuples, sets and intervals, `bound.py` bound
variables, `pieces.py` functions by cases, `expression.py` values, which are computed by
`values.py`. `equality.py` puts the rules in order (its table RULES); `mathverify.py` is asked last,
and only in worker processes.
"""
