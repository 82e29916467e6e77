"""The samples of a policy that are none of the listed right texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import IntArray
from sage_cli.store.samples.completion import Completion

Ids = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Others:
    """By problem: `m_P` samples that are none of its listed texts, and `c_P` of these are right.

    `right` counts all right samples, the listed texts among them. `respelt` samples were stored
    without token ids, so their texts' usual tokens stand for them.
    """

    m_P: IntArray
    c_P: IntArray
    right: int
    respelt: int = 0

    @property
    def share(self) -> float:
        """Return the share of right samples that are none of the listed texts."""
        return float(self.c_P.sum()) / self.right if self.right else float("nan")


def others_of(
    samples: Iterable[tuple[Completion, bool]],
    listed: Mapping[tuple[str, str], Ids],
    problem_ids: Sequence[str],
    usual_ids: Callable[[Completion], Sequence[int]],
) -> Others:
    """Return the others among `samples` of (completion, whether it was graded right).

    `listed` is (problem id, way) -> the tokens whose chance is known. Tokens are compared and not
    texts: a listed text in other tokens, or without its end-of-sequence token, is one of the
    others, because the known chance isn't that of those tokens. `usual_ids` gives a text's tokens
    where the sampled ones were not stored, as behind a server.
    """
    place = {id_: p for p, id_ in enumerate(problem_ids)}
    known = {(id_, tuple(ids)) for (id_, _), ids in listed.items()}
    m_P, c_P = np.zeros(len(place), int), np.zeros(len(place), int)
    right = respelt = 0
    for completion, is_right in samples:
        ids, id_ = completion.token_ids, completion.problem_id
        if ids is None:
            ids, respelt = tuple(usual_ids(completion)), respelt + 1
        right += is_right
        if (id_, ids) not in known:
            m_P[place[id_]] += 1
            c_P[place[id_]] += is_right
    return Others(m_P, c_P, right, respelt)
