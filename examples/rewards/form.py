"""Pays for the form of an answer: working-out, then one answer between tags, then nothing.

    sage rl --set "rl.rewards=[grade, {name: examples/rewards/form.py:form, weight: 0.2}]"

Half of it is for working-out of at least ten characters before the answer.
"""

import re

FORM = re.compile(r"((?:(?!<SOLUTION>).)*)<SOLUTION>([^<]+)</SOLUTION>\s*", re.DOTALL)


def form(completions, **columns):
    found = [FORM.fullmatch(text) for text in completions]
    return [0.0 if one is None else 0.5 + 0.5 * (len(one[1].strip()) >= 10) for one in found]
