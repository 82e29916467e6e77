"""All completions of a small vocabulary and a fixed length; policies as tables over states.

A state is a prefix; Z counts states, of which a completion of T tokens passes T.
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
    """`vocabulary` ** `steps` completions, enumerated in lexical order."""

    vocabulary: int
    steps: int

    @cached_property
    def tokens_BT(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:  # noqa: N802
        """The completions, in lexical order."""
        return np.array(list(product(range(self.vocabulary), repeat=self.steps)))

    @cached_property
    def states_BT(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:  # noqa: N802
        """The state in which each token is sampled; state 0 is the prompt."""
        rows = ([tuple(row[:t]) for t in range(self.steps)] for row in self.tokens_BT.tolist())
        return np.array([[self.prefixes.index(prefix) for prefix in row] for row in rows])

    @cached_property
    def prefixes(self) -> list[tuple[int, ...]]:
        """The states' prefixes, shortest first."""
        return [
            prefix
            for length in range(self.steps)
            for prefix in product(range(self.vocabulary), repeat=length)
        ]

    def along(self, table_ZV: FloatArray) -> FloatArray:
        """Return a table's entries along all completions, (B, T)."""
        return table_ZV[self.states_BT, self.tokens_BT]

    def passing(self, value_BT: FloatArray) -> FloatArray:
        """Return the sums over completions of a value at each state and token, (Z, V)."""
        sums_ZV = np.zeros((len(self.prefixes), self.vocabulary))
        np.add.at(sums_ZV, (self.states_BT, self.tokens_BT), value_BT)
        return sums_ZV

    def masses(self, logp_ZV: FloatArray) -> FloatArray:
        """Return pi(y) of all completions, (B,)."""
        mass_B: FloatArray = np.exp(self.along(logp_ZV).sum(axis=1))
        return mass_B

    def visits(self, logp_ZV: FloatArray) -> FloatArray:
        """Return the probability that a completion passes each state, (Z,)."""
        mass_BT = np.repeat(self.masses(logp_ZV)[:, None], self.steps, axis=1)
        visits_Z: FloatArray = self.passing(mass_BT).sum(axis=1)
        return visits_Z

    def mean(self, value_BT: FloatArray, logp_ZV: FloatArray) -> FloatArray:
        """Return the policy's mean of a value over completions with each state and token, (Z, V).

        A value that is a function of state and token is its own mean; one that looks at the whole
        completion, as a row-normalised guide does, isn't.
        """
        mass_B1 = self.masses(logp_ZV)[:, None]
        whole_ZV = self.passing(np.repeat(mass_B1, self.steps, axis=1))
        mean_ZV: FloatArray = self.passing(mass_B1 * value_BT) / whole_ZV
        return mean_ZV

    def table(self, mass_B: FloatArray) -> FloatArray:
        """Return log pi(v | s) of any distribution over completions, (Z, V)."""
        whole_ZV = self.passing(np.repeat(mass_B[:, None], self.steps, axis=1))
        logp_ZV: FloatArray = np.log(whole_ZV / whole_ZV.sum(axis=1, keepdims=True))
        return logp_ZV

    def log_q(self, guide: Guide, logp_ZV: FloatArray, step: int = 0) -> FloatArray:
        """Return a guide's log q of every completion under a policy's signals, (B, T)."""
        logps_BT, entropy_Z = self.along(logp_ZV), entropies(logp_ZV)
        signals = Signals(
            torch.from_numpy(logps_BT),
            torch.from_numpy(entropy_Z[self.states_BT]),
            torch.ones(logps_BT.shape, dtype=torch.int64),
        )
        log_q_BT: FloatArray = guide.log_q(signals, step).numpy()
        return log_q_BT

    def ascent(self, coefficient_BT: FloatArray, logp_ZV: FloatArray) -> FloatArray:
        """Return E_pi[sum_t coefficient_t grad log pi(y_t | s_t)] by the logits, (Z, V).

        The softmax's derivative is written out: grad log pi(v | s) is 1 at v, less pi(. | s).
        """
        pull_ZV = self.passing(self.masses(logp_ZV)[:, None] * coefficient_BT)
        gradient_ZV: FloatArray = pull_ZV - np.exp(logp_ZV) * pull_ZV.sum(axis=1, keepdims=True)
        return gradient_ZV


def entropies(logp_ZV: FloatArray) -> FloatArray:
    """Return Eq. 12: the entropy of the next token at every state, in nats."""
    entropy_Z: FloatArray = -(np.exp(logp_ZV) * logp_ZV).sum(axis=1)
    return entropy_Z


def random_policy(tree: Tree, seed: int, spread: float = 1.0) -> FloatArray:
    """Return log pi(v | s) from normal logits with deviation `spread`."""
    shape = (len(tree.prefixes), tree.vocabulary)
    return log_softmax(spread * np.random.default_rng(seed).standard_normal(shape))


def log_softmax(logit_ZV: FloatArray) -> FloatArray:
    """Return the log of these logits' distributions, row by row."""
    shifted_ZV = logit_ZV - logit_ZV.max(axis=1, keepdims=True)
    logp_ZV: FloatArray = shifted_ZV - np.log(np.exp(shifted_ZV).sum(axis=1, keepdims=True))
    return logp_ZV
