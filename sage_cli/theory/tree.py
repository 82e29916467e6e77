"""All completions of a small vocabulary and a fixed length, and policies as tables over states.

A state is a prefix; S counts states, of which a completion of T tokens passes T.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import torch

from sage_cli.guides import Guide, Signals
from sage_cli.metrics.counts import FloatArray


@dataclass(frozen=True)
class Tree:
    """`vocabulary` ** `steps` completions; what has a name here is an enumeration of them."""

    vocabulary: int
    steps: int

    @cached_property
    def tokens_BT(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:  # noqa: N802
        """The completions, in lexical order."""
        return np.array(list(product(range(self.vocabulary), repeat=self.steps)))

    @cached_property
    def states_BT(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:  # noqa: N802
        """Which state each token is drawn in; state 0 is the prompt."""
        return np.array(
            [[self.prefixes.index(tuple(row[:t])) for t in range(self.steps)]
             for row in self.tokens_BT.tolist()]
        )  # fmt: skip

    @cached_property
    def prefixes(self) -> list[tuple[int, ...]]:
        """The states' prefixes, shortest first."""
        return [
            prefix
            for length in range(self.steps)
            for prefix in product(range(self.vocabulary), repeat=length)
        ]

    def along(self, table_SV: FloatArray) -> FloatArray:
        """A table's entries along all completions, (B, T)."""
        return table_SV[self.states_BT, self.tokens_BT]

    def passing(self, value_BT: FloatArray) -> FloatArray:
        """Sums of what completions have at each state and token, (S, V)."""
        sums_SV = np.zeros((len(self.prefixes), self.vocabulary))
        np.add.at(sums_SV, (self.states_BT, self.tokens_BT), value_BT)
        return sums_SV

    def masses(self, logp_SV: FloatArray) -> FloatArray:
        """pi(y) of all completions, (B,)."""
        mass_B: FloatArray = np.exp(self.along(logp_SV).sum(axis=1))
        return mass_B

    def visits(self, logp_SV: FloatArray) -> FloatArray:
        """The probability that a completion passes each state, (S,)."""
        mass_BT = np.repeat(self.masses(logp_SV)[:, None], self.steps, axis=1)
        visits_S: FloatArray = self.passing(mass_BT).sum(axis=1)
        return visits_S

    def mean(self, value_BT: FloatArray, logp_SV: FloatArray) -> FloatArray:
        """The policy's mean of a value over the completions with each state and token, (S, V).

        A value that is a function of state and token is its own mean; one that looks at the whole
        completion, as a row-normalised guide does, isn't.
        """
        mass_B1 = self.masses(logp_SV)[:, None]
        whole_SV = self.passing(np.repeat(mass_B1, self.steps, axis=1))
        mean_SV: FloatArray = self.passing(mass_B1 * value_BT) / whole_SV
        return mean_SV

    def table(self, mass_B: FloatArray) -> FloatArray:
        """log pi(v | s) of any distribution over completions, (S, V)."""
        whole_SV = self.passing(np.repeat(mass_B[:, None], self.steps, axis=1))
        logp_SV: FloatArray = np.log(whole_SV / whole_SV.sum(axis=1, keepdims=True))
        return logp_SV

    def log_q(self, guide: Guide, logp_SV: FloatArray, step: int = 0) -> FloatArray:
        """What a guide of the package says of every completion under a policy's signals, (B, T)."""
        logps_BT, entropy_S = self.along(logp_SV), entropies(logp_SV)
        signals = Signals(
            torch.from_numpy(logps_BT),
            torch.from_numpy(entropy_S[self.states_BT]),
            torch.ones(logps_BT.shape, dtype=torch.int64),
        )
        log_q_BT: FloatArray = guide.log_q(signals, step).numpy()
        return log_q_BT

    def ascent(self, coefficient_BT: FloatArray, logp_SV: FloatArray) -> FloatArray:
        """E_pi[sum_t coefficient_t grad log pi(y_t | s_t)] by the logits, (S, V).

        The softmax's derivative is written out: grad log pi(v | s) is 1 at v, less pi(. | s).
        """
        pull_SV = self.passing(self.masses(logp_SV)[:, None] * coefficient_BT)
        gradient_SV: FloatArray = pull_SV - np.exp(logp_SV) * pull_SV.sum(axis=1, keepdims=True)
        return gradient_SV


def entropies(logp_SV: FloatArray) -> FloatArray:
    """Eq. 12: the entropy of the next token at every state, in nats."""
    entropy_S: FloatArray = -(np.exp(logp_SV) * logp_SV).sum(axis=1)
    return entropy_S


def drawn_policy(tree: Tree, seed: int, spread: float = 1.0) -> FloatArray:
    """log pi(v | s) from normal logits with deviation `spread`."""
    shape = (len(tree.prefixes), tree.vocabulary)
    return log_softmax(spread * np.random.default_rng(seed).standard_normal(shape))


def log_softmax(logit_SV: FloatArray) -> FloatArray:
    """log of the distributions of these logits, a row each."""
    shifted_SV = logit_SV - logit_SV.max(axis=1, keepdims=True)
    logp_SV: FloatArray = shifted_SV - np.log(np.exp(shifted_SV).sum(axis=1, keepdims=True))
    return logp_SV
