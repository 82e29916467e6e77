"""What completions are paid besides their grades: built-in rewards, and functions of one's own.

`called.py` calls a function and checks what it returns, `paid.py` sums the parts and tells all
processes of a failure.
"""
