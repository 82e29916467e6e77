"""Contamination: training problems that repeat problems of a benchmark."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.problems.problem import Problem

N = 13
"""Words in a shared passage, as in Brown et al. 2020 (arXiv 2005.14165), Appendix C."""
BOILERPLATE = 10
"""A passage in more benchmark problems than this is wording, not contamination (ibid.)."""
_WORD = re.compile(r"[^\W_]+")
Passage = tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """A training problem that a benchmark problem repeats.

    `share` is the part of the benchmark problem's passages of 13 words that the training problem
    has too; 1 where the normalised texts are the same, which `same` says.
    """

    train: Problem
    bench: Problem
    same: bool
    share: float


def normalised(text: str) -> Passage:
    """Letters and digits in lower case, as words: spacing, punctuation and dollar signs don't count."""  # noqa: E501
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def find_overlap(train: Sequence[Problem], bench: Sequence[Problem]) -> list[Match]:
    """Return all pairs with the same normalised question or a common passage, in bench's order.

    Questions shorter than 13 words match as a whole or not at all.
    """
    texts_P = [normalised(problem.question) for problem in bench]
    passages_P = [_passages(text) for text in texts_P]
    frequency = Counter(passage for passages in passages_P for passage in passages)
    with_text, with_passage = defaultdict(set), defaultdict(set)
    for index, (text, passages) in enumerate(zip(texts_P, passages_P, strict=True)):
        passages_P[index] = {passage for passage in passages if frequency[passage] <= BOILERPLATE}
        with_text[text].add(index)
        for passage in passages_P[index]:
            with_passage[passage].add(index)
    matches: list[tuple[int, Match]] = []
    for problem in train:
        text = normalised(problem.question)
        passages, same = _passages(text), with_text.get(text, set())
        shared = Counter(i for passage in passages for i in with_passage.get(passage, ()))
        for index in same | shared.keys():
            share = 1.0 if index in same else shared[index] / len(passages_P[index])
            matches.append((index, Match(problem, bench[index], index in same, share)))
    return [match for _, match in sorted(matches, key=lambda pair: (pair[0], -pair[1].share))]


def duplicates(problems: Sequence[Problem]) -> list[list[Problem]]:
    """Return groups of problems whose normalised questions are the same, whatever their golds."""
    groups: dict[Passage, list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[normalised(problem.question)].append(problem)
    return [group for group in groups.values() if len(group) > 1]


def _passages(words: Passage) -> set[Passage]:
    return {words[start : start + N] for start in range(len(words) - N + 1)}
