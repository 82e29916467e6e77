"""The tokens of stored samples with what a policy and guides say of them, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sage_cli.analysis.answers import Answers, GradedSample
from sage_cli.analysis.texts import CLASSES, classified
from sage_cli.guides import Guide
from sage_cli.metrics.counts import FloatArray
from sage_cli.progress import Progress

Integers = NDArray[np.int64]
_AT_ONCE = 256
"""Completions whose tokens are padded to a common length."""


Values = Sequence[Sequence[float]]
"""A model's log-probabilities and entropies of a completion's tokens, in nats."""


class TokenRow(NamedTuple):
    """A sample's token ids, with what its policy says of them.

    The reference says it by exponent of its tilt (1: as it is), a guide's teacher by its name.
    """

    sample: GradedSample
    ids: Sequence[int]
    own: Values
    references: Mapping[float, Values] = {}
    teachers: Mapping[str, Values] = {}


@dataclass(frozen=True, eq=False)
class TokenTable:
    """T tokens of P problems: problem, class and word as indices, the word -1 where none begins.

    Surprisal and entropy are in nats; `log_q_T` has each guide's log q by the guide's name.
    """

    problems: int
    words: tuple[str, ...]
    problem_T: Integers
    class_T: Integers
    word_T: Integers
    surprisal_T: FloatArray
    entropy_T: FloatArray
    log_q_T: dict[str, FloatArray] = field(default_factory=dict)


def token_table(
    rows: Iterable[TokenRow],
    answers: Answers,
    text: Callable[[int], str],
    guides: Sequence[Guide],
    progress: Progress,
) -> TokenTable:
    """Return all tokens of the answers' `rows`; `text` gives a token's own text."""
    places = {id_: place for place, id_ in enumerate(answers.problems)}
    numbers: dict[str, int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in ("problem", "class", "word")}
    values: dict[str, list[FloatArray]] = {"surprisal": [], "entropy": []}
    values |= {guide.name: [] for guide in guides}
    rows, first = iter(rows), 0
    while chunk := list(islice(rows, _AT_ONCE)):
        read = [row for row in chunk if row.ids]
        for row in read:
            for kind, word in classified([text(id_) for id_ in row.ids]):
                columns["problem"].append(places[row.sample.problem.id])
                columns["class"].append(CLASSES.index(kind))
                number = -1 if word is None else numbers.setdefault(word, len(numbers))
                columns["word"].append(number)
            logps_T, entropy_T = (np.asarray(one, float) for one in row.own)
            values["surprisal"].append(-logps_T)
            values["entropy"].append(entropy_T)
        if read:
            for guide in guides:
                values[guide.name] += _log_q(guide, read, first)
        first += len(chunk)
        progress.advance(len(chunk))
    flat = {
        name: np.concatenate(parts).astype(float) if parts else np.zeros(0)
        for name, parts in values.items()
    }
    indices = {name: np.array(column, np.int64) for name, column in columns.items()}
    return TokenTable(
        problems=len(places),
        words=tuple(numbers),
        problem_T=indices["problem"],
        class_T=indices["class"],
        word_T=indices["word"],
        surprisal_T=flat["surprisal"],
        entropy_T=flat["entropy"],
        log_q_T={guide.name: flat[guide.name] for guide in guides},
    )


def _log_q(guide: Guide, read: Sequence[TokenRow], first: int) -> Any:
    """Return each completion's log q at the beginning of the guide's schedule."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from sage_cli.guides.token_values import log_q_of

    def pair(values: Values) -> Any:
        return tuple(torch.tensor(one, dtype=torch.float32) for one in values)

    def padded(logps: Iterable[Sequence[float]]) -> Any:
        return pad_sequence([torch.tensor(one) for one in logps], batch_first=True)

    known: dict[Any, Any] = {
        "right_B": torch.tensor([row.sample.right for row in read]),
        "problem_ids_B": tuple(row.sample.problem.id for row in read),
    }
    reference = None
    if guide.reads_reference:
        reference = [pair(row.references[1.0]) for row in read]
        tilts = [guide.exponents[row.sample.right] for row in read]
        if guide.tilts:
            known["reference_tilted_logps_BT"] = padded(
                row.references[phi][0] for row, phi in zip(read, tilts, strict=True)
            )
    if guide.reads_teacher:
        known["teacher_logps_BT"] = padded(row.teachers[guide.name][0] for row in read)
    own, ids = [pair(row.own) for row in read], [list(row.ids) for row in read]
    found = log_q_of(guide, own, ids, known, first, reference)
    return [log_q_T.numpy() for log_q_T in found]


def by_problem(table: TokenTable) -> list[Integers]:
    """Return for each problem the indices of its tokens, in their order."""
    order_T = np.argsort(table.problem_T, kind="stable")
    count_P = np.bincount(table.problem_T, minlength=table.problems)
    return np.split(order_T, np.cumsum(count_P)[:-1])
