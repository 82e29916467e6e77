"""The rules of equal mathematical answers; they know no completions or judges.

`notation.py` brings both to one notation (its table STEPS). `sentences.py` finds the answer that a
sentence gives, `wording.py` compares words, choices, dates, `english.py` has the words that change
an answer, `names.py` says which texts name a value. `numbers.py` reads numbers, `units.py` the
units behind them, `quantities.py` amounts in any unit, `structure.py` tuples, sets and intervals,
`regions.py` parts of the real line, `solutions.py` the values of several unknowns, `bound.py` bound
variables, `pieces.py` functions by cases, `expression.py` values, which are computed by
`values.py`. `items.py` compares items in any order, `products.py` the order of matrices.
`equality.py` puts the rules in order (its table RULES); `mathverify.py` is asked last,
and only in worker processes.
"""
