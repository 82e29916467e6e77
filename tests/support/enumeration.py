"""Problems that are small enough to enumerate: all completions, closed forms, gradient ascent.

A state is a prefix; Z counts states, of which a completion of T tokens passes T. A policy is a
table of log pi(v | s), (Z, V); B counts completions, W a policy's parameters.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import torch

from sage_cli.guides import Signals
from sage_cli.guides.divergences import k3


@dataclass(frozen=True)
class Tree:
    """`vocabulary` ** `steps` completions, in lexical order."""

    vocabulary: int
    steps: int

    @cached_property
    def tokens_BT(self):  # noqa: N802
        """The completions."""
        return np.array(list(product(range(self.vocabulary), repeat=self.steps)))

    @cached_property
    def prefixes(self):
        """The states' prefixes, shortest first; state 0 is the prompt."""
        return [p for t in range(self.steps) for p in product(range(self.vocabulary), repeat=t)]

    @cached_property
    def states_BT(self):  # noqa: N802
        """The state in which each token is sampled."""
        rows = ([tuple(row[:t]) for t in range(self.steps)] for row in self.tokens_BT.tolist())
        return np.array([[self.prefixes.index(prefix) for prefix in row] for row in rows])

    def along(self, table_ZV):
        """Return a table's entries along all completions, (B, T)."""
        return table_ZV[self.states_BT, self.tokens_BT]

    def passing(self, value_BT):
        """Return the sums over completions of a value at each state and token, (Z, V)."""
        sums_ZV = np.zeros((len(self.prefixes), self.vocabulary))
        np.add.at(sums_ZV, (self.states_BT, self.tokens_BT), value_BT)
        return sums_ZV

    def masses(self, logp_ZV):
        """Return pi(y) of all completions, (B,)."""
        return np.exp(self.along(logp_ZV).sum(axis=1))

    def repeated(self, value_B):
        """Return a completion's value at each of its tokens, (B, T)."""
        return np.repeat(value_B[:, None], self.steps, axis=1)

    def visits(self, logp_ZV):
        """Return the probability that a completion passes each state, (Z,)."""
        return self.passing(self.repeated(self.masses(logp_ZV))).sum(axis=1)

    def mean(self, value_BT, logp_ZV):
        """Return the policy's mean of a value over completions with each state and token, (Z, V).

        A value that is a function of state and token is its own mean; one that looks at the whole
        completion, as a row-normalised guide does, isn't.
        """
        mass_BT = self.repeated(self.masses(logp_ZV))
        return self.passing(mass_BT * value_BT) / self.passing(mass_BT)

    def table(self, mass_B):
        """Return log pi(v | s) of any distribution over completions, (Z, V)."""
        whole_ZV = self.passing(self.repeated(mass_B))
        return np.log(whole_ZV / whole_ZV.sum(axis=1, keepdims=True))

    def log_q(self, guide, logp_ZV):
        """Return a guide's log q of every completion under a policy's signals, (B, T)."""
        logps_BT = torch.from_numpy(self.along(logp_ZV))
        entropy_BT = torch.from_numpy(entropies(logp_ZV)[self.states_BT])
        return guide.log_q(Signals(logps_BT, entropy_BT, torch.ones(logps_BT.shape)), 0).numpy()

    def ascent(self, coefficient_BT, logp_ZV):
        """Return E_pi[sum_t coefficient_t grad log pi(y_t | s_t)] by the logits, (Z, V).

        The softmax's derivative is written out: grad log pi(v | s) is 1 at v, less pi(. | s).
        """
        pull_ZV = self.passing(self.masses(logp_ZV)[:, None] * coefficient_BT)
        return pull_ZV - np.exp(logp_ZV) * pull_ZV.sum(axis=1, keepdims=True)


def entropies(logp_ZV):
    """Return Eq. 12: the entropy of the next token at every state, in nats."""
    return -(np.exp(logp_ZV) * logp_ZV).sum(axis=1)


def random_policy(tree, seed, spread=1.0):
    """Return log pi(v | s) from normal logits with deviation `spread`."""
    shape = (len(tree.prefixes), tree.vocabulary)
    return log_softmax(spread * np.random.default_rng(seed).standard_normal(shape))


def log_softmax(logit_ZV):
    """Return the log of these logits' distributions, row by row."""
    shifted_ZV = logit_ZV - logit_ZV.max(axis=-1, keepdims=True)
    return shifted_ZV - np.log(np.exp(shifted_ZV).sum(axis=-1, keepdims=True))


def close(found, expected, tolerance=1e-12):
    """Compare by absolute differences."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def slope(value, by):
    """Return a sum's derivative, by autograd."""
    return torch.autograd.grad(value.sum(), by, retain_graph=True)[0].numpy()


def ascend(gradient, start_W, steps=20_000):
    """Follow a gradient until it vanishes, with steps of Barzilai and Borwein (1988).

    Their step is the inverse of the curvature that the last step met, so that flat directions
    (rare completions) don't take a million steps.
    """
    at_W, slope_W, size = start_W, gradient(start_W), 1.0
    for _ in range(steps):
        if np.abs(slope_W).max() < 1e-14:
            break
        move_W = size * slope_W
        move_W = move_W * min(1.0, 1.0 / float(np.abs(move_W).max()))
        at_W = at_W + move_W
        new_W = gradient(at_W)
        bend = float(move_W @ (slope_W - new_W))
        size = float(move_W @ move_W) / abs(bend) if bend else 1.0
        slope_W = new_W
    return at_W


def normalised(weight_B):
    """Return the distribution with these weights."""
    return weight_B / weight_B.sum()


def tilted(reward_B, anchor_B, beta):
    """Return anchor exp(r / beta), normalised: Eq. 2, and Eq. 4 where the anchor is q pi_ref."""
    return normalised(anchor_B * np.exp((reward_B - reward_B.max()) / beta))


def covering(reward_B, anchor_B, beta):
    """Return Eq. 27: beta anchor / (lambda - r), the forward KL's stationary policy."""
    return beta * anchor_B / (covering_level(reward_B, anchor_B, beta) - reward_B)


def covering_level(reward_B, anchor_B, beta):
    """Return Eq. 27's lambda for any rewards, by bisection: masses are positive and sum to one."""
    top = float(reward_B.max())
    low, high = 0.0, beta * float(anchor_B.sum())
    while low < (middle := (low + high) / 2) < high:
        mass = (beta * anchor_B / (middle + top - reward_B)).sum()
        low, high = (middle, high) if mass > 1 else (low, middle)
    return top + high


def k3_corrected(logps_BT, reference_logps_BT, old_logps_BT, log_q_BT=0):
    """k3 times the importance ratio pi / pi_old, with gradient through both.

    On-policy its expected gradient is the exact per-token reverse KL's; a guide that depends on
    the state alone is a baseline there and drops out.
    """
    ratio_BT = (logps_BT - old_logps_BT).exp()
    return ratio_BT * k3(logps_BT, reference_logps_BT, log_q_BT)
