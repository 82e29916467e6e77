"""The loss of guided RL from its formulas, one completion at a time, in double precision.

Rows and tokens are looped over; nothing of `sage` or TRL computes what is expected.
"""

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist

import torch

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Formula:
    """What is computed, with the numbers that it reads."""

    loss: str
    level: str
    guide: str
    estimator: str
    held: str
    """Which tokens the KL term acts on: `all`, the fifth of highest entropy (`uncertain`), or the
    others (`certain`)."""
    beta: float
    step: int
    steps: int
    limit: int
    """The longest completion."""
    tau: float
    rho: float
    epsilon: tuple[float, float] = (0.1, 0.0)
    """The ends of the share of tokens that the guide random perturbs."""
    low: float = 0.2
    high: float = 0.2

    def terms(self, row, logps, entropies, reference, old, advantage):
        """The terms (T,) of a completion; `row` is its place in the generation batch.

        `logps` carry the gradient. `entropies` are plain numbers, and so is the advantage.
        """
        q = self.q(logps.tolist(), entropies, row)
        log_q = torch.tensor([math.log(x) for x in q], dtype=torch.float64)
        length, threshold = len(logps), quantile(entropies, 0.8)
        acts = [
            self.held == "all" or (self.held == "uncertain") == (h > threshold) for h in entropies
        ]
        log_ratio = logps - old
        sequence = log_ratio.sum() / length
        phi = (
            gamma_weight(advantage, float(log_ratio.detach().sum()))
            if self.loss == "vespo"
            else 0.0
        )
        terms = []
        for t in range(length):
            ratio = (sequence if self.level == "sequence" else log_ratio[t]).exp()
            mine = advantage
            if self.estimator == "reward":
                mine -= self.beta * sum(
                    float((logps[s] - log_q[s] - reference[s]).detach())
                    for s in range(t, length)
                    if acts[s]
                )
            term = self.surrogate(ratio, torch.tensor(mine, dtype=torch.float64), logps[t], phi)
            if self.estimator in ("k3", "k3-corrected") and acts[t]:
                d = log_q[t] + reference[t] - logps[t]
                k3 = d.exp() - d - 1
                corrected = self.estimator == "k3-corrected"
                term = term + self.beta * (k3 * ratio if corrected else k3)
            terms.append(term)
        return torch.stack(terms)

    def q(self, logps, entropies, row):
        """q of a completion's tokens, from plain numbers."""
        if self.guide == "branch":
            q = [1 + self.rho * max(0.0, h - self.tau) for h in entropies]
        elif self.guide == "token":
            low, high = (quantile([-x for x in logps], share) for share in (0.05, 0.95))
            span = (high - low) or math.inf  # of equal surprisals none stands out
            w = [(min(max(-x, low), high) - low) / span for x in logps]
            alpha, sigma = self.annealed(0.3, 0.1), self.annealed(0.25, 0.1)
            q = [1 + x * (alpha + sigma * self.normal(row, t, 0)) for t, x in enumerate(w)]
        elif self.guide == "random":
            share, sigma = self.annealed(*self.epsilon), self.annealed(0.15, 0.05)
            q = [
                1 + sigma * self.normal(row, t, 1) if self.uniform(row, t, 0) < share else 1.0
                for t in range(len(logps))
            ]
        else:
            q = [1.0] * len(logps)
        return [min(max(x, 0.6), 1.4) for x in q]

    def annealed(self, upper, lower):
        """Cosine cycles: eight in all, each upper end nine tenths of the one before."""
        length = self.steps // 8
        phase, top = (self.step % length) / length, upper * 0.9 ** (self.step // length)
        return lower + (top - lower) * (1 + math.cos(math.pi * phase)) / 2

    def uniform(self, row, place, which):
        """The documented noise: SplitMix64 seeded by the output of another, 53 bits."""
        digest = hashlib.blake2b(repr((3407, self.step)).encode(), digest_size=8).digest()
        seed = int.from_bytes(digest, "little", signed=True)
        inner = splitmix(seed + (row + 1) * GOLDEN)
        return (splitmix(inner + (2 * place + which + 1) * GOLDEN) >> 11) * 2.0**-53

    def normal(self, row, place, which):
        u = self.uniform(row, place, which)
        return NormalDist().inv_cdf(min(max(u, 2.0**-53), 1 - 2.0**-53))

    def surrogate(self, ratio, advantage, logp, phi):
        """One token's policy term; ratios are the completion's at the level of sequences."""
        if self.loss == "cispo":
            return -torch.clamp(ratio, max=self.high).detach() * advantage * logp
        if self.loss == "sapo":
            temperature = 1.0 if advantage > 0 else float(torch.tensor(1.05))  # TRL's is float32
            return -torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * advantage
        if self.loss == "vespo":
            return -phi * advantage * logp
        clipped = torch.clamp(ratio, 1 - self.low, 1 + self.high)
        return -torch.minimum(ratio * advantage, clipped * advantage)

    def aggregated(self, terms):
        """The batch's loss, of each completion's terms."""
        if self.loss in ("grpo", "sapo"):
            return sum(row.mean() for row in terms) / len(terms)
        if self.loss == "luspo":
            return sum(row.sum() for row in terms) / len(terms)
        if self.loss == "dr_grpo":
            return torch.cat(terms).sum() / (len(terms) * self.limit)
        return torch.cat(terms).mean()


def splitmix(x):
    x &= MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def quantile(values, share):
    ascending = sorted(values)
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (place - below)


def gamma_weight(advantage, log_w):
    """VESPO's weight of a completion; w is the product of its ratios."""
    k, rate = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
    w = math.exp(min(max(log_w, math.log(1e-8)), 20.0))
    return math.exp(rate + k * math.log(w) - rate * w)
