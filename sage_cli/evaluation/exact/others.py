"""The samples of a policy that are none of the listed right texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import IntArray


@dataclass(frozen=True, eq=False)
class Others:
    """By problem: `m_P` samples that are none of its listed texts, and `c_P` of these are right.

    `right` counts all right samples, the listed texts among them.
    """

    m_P: IntArray
    c_P: IntArray
    right: int

    @property
    def share(self) -> float:
        """Return the share of right samples that are none of the listed texts."""
        return float(self.c_P.sum()) / self.right if self.right else float("nan")


def others_of(
    samples: Iterable[tuple[str, str, bool]],
    listed: Mapping[str, Mapping[str, str]],
    problem_ids: Sequence[str],
) -> Others:
    """Return the others among `samples` of (problem id, text, whether it was graded right).

    `listed` is problem id -> way -> text.
    """
    place = {id_: p for p, id_ in enumerate(problem_ids)}
    texts = {id_: frozenset(by_way.values()) for id_, by_way in listed.items()}
    m_P, c_P, right = np.zeros(len(place), int), np.zeros(len(place), int), 0
    for id_, text, is_right in samples:
        right += is_right
        if text not in texts[id_]:
            m_P[place[id_]] += 1
            c_P[place[id_]] += is_right
    return Others(m_P, c_P, right)
