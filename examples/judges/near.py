"""Numbers near the gold are partly correct: 1 for the gold itself, 0 from 10% away on.

sage rl --set data.rl.name=mine.jsonl --set grading.judge=examples/judges/near.py:near
"""


def near(answer, gold):
    try:
        distance = abs(float(answer) - float(gold)) / max(abs(float(gold)), 1e-9)
    except ValueError:
        return False  # no number
    return max(0.0, 1 - 10 * distance)
