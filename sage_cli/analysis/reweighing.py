"""Advantages that methods would have given to the completions of a training, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from sage_cli.errors import SageError, StoreError
from sage_cli.metrics.counts import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs
    from sage_cli.methods.method import OnlineMethod


@dataclass(frozen=True, eq=False)
class Trained:
    """The completions of a generation batch, P problems with N each, that were trained on.

    `logps` are log-probabilities of policy and reference by row, None where they aren't kept; so
    are `texts`.
    """

    step: int
    problems: Sequence[str]
    rewards_PN: FloatArray
    right_PN: FloatArray
    tokens_PN: IntArray
    texts: Sequence[str] | None = None
    policy_logps: Sequence[Sequence[float]] | None = None
    reference_logps: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True, eq=False)
class Weights:
    """Each method's advantages of all rows R, means over a row's tokens, and what the rows are."""

    advantage_R: dict[str, FloatArray]
    refused: dict[str, str]
    """Methods without advantages, and why."""
    rate_R: FloatArray
    """The pass rate of the row's group."""
    right_R: np.ndarray
    tokens_R: IntArray
    left_out: int
    """Groups of another size than the others of their step."""


def reweighed(
    batches: Sequence[tuple[Trained, int]], methods: Sequence[OnlineMethod], steps: int
) -> Weights:
    """Return the methods' advantages of batches, each with its number of groups left out.

    A method that keeps something from batch to batch does so here. One that needs what isn't
    stored is refused, with its reason.
    """
    found: dict[str, list[FloatArray]] = {method.algo: [] for method in methods}
    refused: dict[str, str] = {}
    for method in methods:
        memory: dict[str, Any] = {}
        for batch, _ in batches:
            try:
                found[method.algo].append(_advantages(method, _inputs(batch, steps, memory)))
            except SageError as error:
                refused[method.algo] = error.cause
                break
    every = [batch for batch, _ in batches]
    rate_R = np.concatenate(
        [np.repeat(b.right_PN.mean(axis=1), b.right_PN.shape[1]) for b in every]
    )
    return Weights(
        {name: np.concatenate(of) for name, of in found.items() if name not in refused},
        refused,
        rate_R,
        np.concatenate([b.right_PN.ravel() > 0 for b in every]),
        np.concatenate([b.tokens_PN.ravel() for b in every]),
        sum(left for _, left in batches),
    )


def batches_of(
    completions: Sequence[Any] | pa.Table, ledger: pa.Table
) -> list[tuple[Trained, int]]:
    """Return a training's batches from its completions, or else from the counts of its ledger.

    Each comes with the number of groups that are left out, because they have another size.
    """
    source = _kept(completions) if len(completions) else _counted(ledger)
    return [one for one in source if len(one[0].problems)]


def _kept(completions: pa.Table) -> Iterator[tuple[Trained, int]]:
    """Yield a batch for each step, groups as they were sampled."""
    steps: dict[int, list[list[dict[str, Any]]]] = {}
    for row in completions.to_pylist():
        if row["trained"]:
            groups = steps.setdefault(row["step"], [])
            if not groups or groups[-1][0]["problem"] != row["problem"]:
                groups.append([])
            groups[-1].append(row)
    for step, groups in steps.items():
        (size, _), *_ = Counter(map(len, groups)).most_common(1)
        whole = [group for group in groups if len(group) == size]
        rows = [row for group in whole for row in group]
        shape = len(whole), size
        references = [row["reference_logps"] for row in rows]
        policies = [row["policy_logps"] for row in rows]
        trained = Trained(
            step,
            [group[0]["problem"] for group in whole],
            np.array([sum(row["rewards"]) for row in rows], float).reshape(shape),
            np.array([row["grade"] == "right" for row in rows], float).reshape(shape),
            np.array([len(row["ids"]) for row in rows]).reshape(shape),
            [row["text"] for row in rows],
            None if None in policies else policies,
            None if None in references else references,
        )
        yield trained, len(groups) - len(whole)


def _counted(ledger: pa.Table) -> Iterator[tuple[Trained, int]]:
    """Yield a batch for each step; a completion has its group's mean length for its grade."""
    steps: dict[int, list[dict[str, Any]]] = {}
    for row in ledger.to_pylist():
        if row["trained"]:
            steps.setdefault(row["step"], []).append(row)
    for step, rows in steps.items():
        (size, _), *_ = Counter(row["n"] for row in rows).most_common(1)
        whole = [row for row in rows if row["n"] == size]
        right_PN = np.array([[i < row["right"] for i in range(size)] for row in whole], float)
        tokens = [
            (row["right_tokens"], row["tokens"] - row["right_tokens"], row["right"])
            for row in whole
        ]
        means = [[right / max(1, c), other / max(1, size - c)] for right, other, c in tokens]
        tokens_PN = np.array(
            [
                [mean[0] if is_right else mean[1] for is_right in right_N]
                for mean, right_N in zip(means, right_PN, strict=True)
            ]
        )
        problems = [row["problem"] for row in whole]
        lengths_PN = np.maximum(1, tokens_PN.round()).astype(np.int64)
        yield Trained(step, problems, right_PN, right_PN, lengths_PN), len(rows) - len(whole)


def _inputs(batch: Trained, steps: int, memory: dict[str, Any]) -> AdvantageInputs:
    """Return what a method is given of a batch."""
    import torch

    from sage_cli.methods.formulas import AdvantageInputs, Texts

    lengths_B = torch.from_numpy(batch.tokens_PN.ravel())
    mask_BT = (torch.arange(int(lengths_B.max())) < lengths_B[:, None]).long()

    def padded(rows: Sequence[Sequence[float]] | None, what: str) -> Tensor:
        if rows is None:
            _lacking(what)
        whole_BT = torch.zeros(mask_BT.shape)
        for row_T, values in zip(whole_BT, rows, strict=True):
            row_T[: len(values)] = torch.tensor(values)
        return whole_BT

    def texts() -> Texts:
        if batch.texts is None:
            _lacking("texts")
        per_prompt = batch.right_PN.shape[1]
        ids = tuple(problem for problem in batch.problems for _ in range(per_prompt))
        return Texts(tuple(batch.texts), ids)

    return AdvantageInputs(
        rewards_PN=torch.from_numpy(batch.rewards_PN).float(),
        right_PN=torch.from_numpy(batch.right_PN).float(),
        mask_BT=mask_BT,
        step=batch.step - 1,
        steps=steps,
        # no entropies are stored: what reads them isn't a number either
        read_signals=lambda: (
            padded(batch.policy_logps, "log-probabilities"),
            torch.full(mask_BT.shape, torch.nan),
        ),
        memory=memory,
        read_reference=lambda: padded(batch.reference_logps, "the reference's log-probabilities"),
        read_texts=texts,
    )


def _lacking(what: str) -> NoReturn:
    raise StoreError(
        f"it reads {what}, which aren't stored", "train with --set tracking.rollouts=all"
    )


def _advantages(method: OnlineMethod, inputs: AdvantageInputs) -> FloatArray:
    """Return a method's advantage of each row, the mean over its tokens."""
    from sage_cli.methods.formulas import centred_advantages, group_advantages

    if method.computed_by_trl is None:
        found = method.advantages(inputs)
    else:
        formula = group_advantages if method.computed_by_trl == "group" else centred_advantages
        found = formula(inputs.rewards_PN).flatten()
    if found.dim() == 2:
        mask_BT = inputs.mask_BT
        found = (found * mask_BT).sum(dim=1) / mask_BT.sum(dim=1).clamp(min=1)
    values: FloatArray = found.double().numpy()
    if not np.isfinite(values).all():
        _lacking("entropies")
    return values
