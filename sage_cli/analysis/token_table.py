"""The tokens of stored samples with what a policy and guides say of them, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_cli.analysis.answers import Answers, GradedSample
from sage_cli.analysis.forward import Forward
from sage_cli.analysis.token_classes import CLASSES, classified
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide
from sage_cli.metrics.counts import FloatArray
from sage_cli.progress import Progress

Integers = NDArray[np.int64]
_AT_ONCE = 256
"""Completions whose tokens are padded to a common length."""


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


def refuse_unknown_signals(guides: Sequence[Guide]) -> None:
    """Raise ConfigurationError for guides that read more than one policy and grades tell."""
    for guide in guides:
        unknown = ("rewards_B", "group_right_B", "teacher_logps_BT")
        lacking = {name for name in guide.needs if name in unknown}
        if guide.reads_reference or lacking:
            what = "the reference" if guide.reads_reference else ", ".join(sorted(lacking))
            raise ConfigurationError(
                f"guide '{guide.name}' reads {what}, and `sage analyze signals` knows the policy's "
                "own signals, grades and problems",
                f"leave {guide.name} out of --guides; `sage guide show` applies guides of the "
                "reference",
            )


def token_table(
    answers: Answers, forward: Forward, guides: Sequence[Guide], progress: Progress
) -> TokenTable:
    """Return all tokens of the answers; the policy reads each completion once."""
    refuse_unknown_signals(guides)
    places = {id_: place for place, id_ in enumerate(answers.problems)}
    numbers: dict[str, int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in ("problem", "class", "word")}
    values: dict[str, list[FloatArray]] = {"surprisal": [], "entropy": []}
    values |= {guide.name: [] for guide in guides}
    whole = answers.n * len(answers.problems) * len(answers.grades)
    progress.begin(f"{answers.policy} reads its samples", whole, "completions")
    rows, first = answers.rows(), 0
    while chunk := list(islice(rows, _AT_ONCE)):
        read = [one for one in forward.tokens(chunk, answers.problems) if one[1]]
        for row, ids, logps_T, entropy_T in read:
            for kind, word in classified([forward.text(id_) for id_ in ids]):
                columns["problem"].append(places[row.problem.id])
                columns["class"].append(CLASSES.index(kind))
                number = -1 if word is None else numbers.setdefault(word, len(numbers))
                columns["word"].append(number)
            values["surprisal"].append(-logps_T.numpy())
            values["entropy"].append(entropy_T.numpy())
        if read:
            for guide in guides:
                values[guide.name] += _log_q(guide, read, first)
        first += len(chunk)
        progress.advance(len(chunk))
    progress.end()
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


def _log_q(guide: Guide, read: Sequence[tuple[GradedSample, Any, Any, Any]], first: int) -> Any:
    """Return each completion's log q at the beginning of the guide's schedule."""
    import torch

    from sage_cli.guides.token_values import log_q_of

    known: dict[Any, Any] = {
        "right_B": torch.tensor([row.right for row, *_ in read]),
        "problem_ids_B": tuple(row.problem.id for row, *_ in read),
    }
    pairs = [(logps_T, entropy_T) for _, _, logps_T, entropy_T in read]
    ids = [list(ids) for _, ids, *_ in read]
    return [log_q_T.numpy() for log_q_T in log_q_of(guide, pairs, ids, known, first)]


def by_problem(table: TokenTable) -> list[Integers]:
    """Return for each problem the indices of its tokens, in their order."""
    order_T = np.argsort(table.problem_T, kind="stable")
    count_P = np.bincount(table.problem_T, minlength=table.problems)
    return np.split(order_T, np.cumsum(count_P)[:-1])
