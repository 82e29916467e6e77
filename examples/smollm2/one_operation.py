"""What guessing gives: one operation on two numbers of the question, each equally likely.

    python examples/smollm2/one_operation.py smollm2/test.jsonl --limit 400 --k 1,8,16

Numbers are those in digits and the words up to ten. With p the share of (ordered pair,
operation) that give the gold, pass@k of a problem is 1 - (1 - p)^k.
"""

from __future__ import annotations

import argparse
import json
import re
from fractions import Fraction
from itertools import permutations
from pathlib import Path

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def numbers(question: str) -> list[Fraction]:
    """Return the numbers of a question, in their order."""
    words = re.findall(r"\d+(?:\.\d+)?|[a-z]+", question.lower().replace(",", ""))
    return [
        Fraction(word) if word[0].isdigit() else Fraction(_WORDS.index(word))
        for word in words
        if word[0].isdigit() or word in _WORDS
    ]


def chance(question: str, gold: str) -> float:
    """Return the probability that one operation on two of the numbers gives the gold."""
    results = []
    for a, b in permutations(numbers(question), 2):
        results += [a + b, a - b, a * b, a / b if b else None]
    return results.count(Fraction(gold)) / len(results) if results else 0.0


def main() -> None:
    """Print the share of problems within reach, and pass@k."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--k", default="1,8,16")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.file.read_text().splitlines()][: options.limit]
    chances = [chance(row["question"], row["gold"]) for row in rows]
    print(f"within reach: {sum(p > 0 for p in chances) / len(chances):.3f} of {len(chances)}")
    for k in map(int, options.k.split(",")):
        print(f"pass@{k}: {sum(1 - (1 - p) ** k for p in chances) / len(chances):.3f}")


if __name__ == "__main__":
    main()
