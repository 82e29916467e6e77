"""Clusters of problems that are told alike, so that they are not independent samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from sage_cli.errors import ConfigurationError
from sage_cli.problems.problem import Problem

AUTO = "auto"
"""Stands for the clusters of `question_clusters` in the place of a field's name."""
RUN = 8
"""Words in a row that two questions share if one is the other's variant."""
LARGEST_SHARE = 0.2
"""The largest cluster's share of the problems: beyond, one shared phrase joins what differs."""
_NUMBER = re.compile(r"\d[\d.,]*")


def problem_clusters(problems: Sequence[Problem], by: str) -> dict[str, str]:
    """Return the cluster of each problem by its id: by the field `by` of its row, or `AUTO`.

    Raises ConfigurationError for a row without the field, and where `AUTO` joins too many.
    """
    if by == AUTO:
        return question_clusters({problem.id: problem.question for problem in problems})
    return field_clusters([(problem.id, problem.meta) for problem in problems], by)


def masked_runs(question: str) -> set[tuple[str, ...]]:
    """Return the runs of `RUN` words of a question in lower case, with its numbers masked."""
    words = _NUMBER.sub("#", question.lower()).split()
    return {tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def question_clusters(questions: Mapping[str, str]) -> dict[str, str]:
    """Return for each problem's id the cluster of its question, named by its smallest id.

    Single linkage: questions that share a masked run of words are in one cluster, and so are those
    that are joined by others. Raises ConfigurationError where the largest has more than
    `LARGEST_SHARE` of the problems.
    """
    parent = {id_: id_ for id_ in questions}

    def root(id_: str) -> str:
        while parent[id_] != id_:
            parent[id_] = parent[parent[id_]]  # halves the path for the next who asks
            id_ = parent[id_]
        return id_

    first_with: dict[tuple[str, ...], str] = {}
    for id_ in sorted(questions):
        for run in masked_runs(questions[id_]):
            a, b = sorted((root(id_), root(first_with.setdefault(run, id_))))
            parent[b] = a
    clusters = {id_: root(id_) for id_ in questions}
    name, size = largest_cluster(clusters)
    if size > LARGEST_SHARE * len(questions):
        raise ConfigurationError(
            f"{size} of {len(questions)} problems are one cluster by shared runs of {RUN} words, "
            f"such as '{questions[name][:60]}': a phrase that many problems share joins them",
            "name the field that says which problems belong together: --cluster FIELD",
        )
    return clusters


def largest_cluster(clusters: Mapping[str, str]) -> tuple[str, int]:
    """Return the name of the largest cluster and its number of problems; the first of several."""
    counts = Counter(clusters[id_] for id_ in sorted(clusters))
    return counts.most_common(1)[0]


def field_clusters(rows: Sequence[tuple[str, Mapping[str, object]]], field: str) -> dict[str, str]:
    """Return for each problem's id the value of its row's `field`, as text.

    Raises ConfigurationError for a row that lacks it.
    """
    for id_, row in rows:
        if row.get(field) in (None, ""):
            names = ", ".join(sorted(str(name) for name in row if name != "origin")) or "no others"
            raise ConfigurationError(
                f"the row of problem {id_} has no field '{field}' to cluster by",
                f"name one that every row has; this row has {names}; or use --cluster auto",
            )
    return {id_: str(row[field]) for id_, row in rows}
