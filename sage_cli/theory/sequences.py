"""From tokens to completions: the sums of Eqs. 5 to 8, 12 and 39, by enumeration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.guides import BranchGuide, Guide, RandomGuide, TokenGuide
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.statement import Found, distance, statement
from sage_cli.theory.tree import Tree, entropies, random_policy

TREE = Tree(vocabulary=3, steps=3)
POLICY_ZV = random_policy(TREE, seed=3, spread=1.5)
REFERENCE_ZV = random_policy(TREE, seed=4)
GUIDES: dict[str, Guide] = {
    "random": RandomGuide(epsilon=(0.5, 0.0)),
    "token": TokenGuide(),
    "branch": BranchGuide(tau=0.5, rho=0.8),
}
"""The package's own guides; the tree's entropies reach log 3, so that branch's tau is lower."""


def log_qs() -> Iterator[tuple[str, FloatArray]]:
    """Return each guide's name and its log q of the policy's completions, (B, T)."""
    for name, guide in GUIDES.items():
        yield name, TREE.log_q(guide, POLICY_ZV)


@statement("pseudo-KL", "3, 5", "as printed")
def pseudo_kl() -> Found:
    """D(pi || q pi_ref) is the KL from the normalised anchor less the log of the anchor's sum,
    which is no function of pi: not normalising changes no gradient, but D may be negative.
    """
    policy_B, reference_B = TREE.masses(POLICY_ZV), TREE.masses(REFERENCE_ZV)
    worst, sums = 0.0, {}
    for name, log_q_BT in log_qs():
        anchor_B = np.exp(log_q_BT.sum(axis=1)) * reference_B
        pseudo = policy_B @ np.log(policy_B / anchor_B)
        proper = policy_B @ np.log(policy_B / (anchor_B / anchor_B.sum()))
        worst = max(worst, distance(pseudo, proper - np.log(anchor_B.sum())))
        sums[f"sum of q pi_ref, {name}"] = float(anchor_B.sum())
    return worst, sums


@statement("decomposition", "7, 8", "as printed")
def decomposition() -> float:
    """D over completions is the KL summed over the states that the policy visits, less the mean log
    q_t there.
    """
    policy_B, reference_B = TREE.masses(POLICY_ZV), TREE.masses(REFERENCE_ZV)
    visits_Z, next_ZV = TREE.visits(POLICY_ZV), np.exp(POLICY_ZV)
    kl_Z = (next_ZV * (POLICY_ZV - REFERENCE_ZV)).sum(axis=1)
    worst = 0.0
    for _, log_q_BT in log_qs():
        whole = policy_B @ np.log(policy_B / (np.exp(log_q_BT).prod(axis=1) * reference_B))
        given_back = (visits_Z @ (next_ZV * TREE.mean(log_q_BT, POLICY_ZV))).sum()
        worst = max(worst, distance(whole, visits_Z @ kl_Z - given_back))
    return worst


@statement("a guide that looks ahead", "7, 10", "not as printed")
def causal_guide() -> Found:
    """Branch's q_t depends on x and y_<t alone; token's depends on the tokens after t too, because
    its surprisal is normalised over the whole completion, and Eq. 7 does not allow that.
    """
    spreads = {}
    for name, guide in (("branch", GUIDES["branch"]), ("token", TokenGuide(sigma=(0, 0)))):
        log_q_BT = TREE.log_q(guide, POLICY_ZV)
        spreads[name] = distance(log_q_BT, TREE.along(TREE.mean(log_q_BT, POLICY_ZV)))
    error = spreads["branch"]
    return error, {
        f"log q at one state and token differs by, {name}": v for name, v in spreads.items()
    }


@statement("token entropies", "12", "as printed")
def entropy_chain() -> float:
    """The entropies H_t of the states on a completion's way sum up, in the mean, to the entropy
    over completions.
    """
    policy_B = TREE.masses(POLICY_ZV)
    whole = -(policy_B @ np.log(policy_B))
    return distance(whole, TREE.visits(POLICY_ZV) @ entropies(POLICY_ZV))


@statement("perplexity", "39", "as printed")
def perplexity() -> float:
    """T times the mean log-perplexity of the policy's completions under the reference is the
    policy's entropy plus its KL: it falls where the policy sharpens, and rises where it strays.
    """
    policy_B, reference_B = TREE.masses(POLICY_ZV), TREE.masses(REFERENCE_ZV)
    ppl_B = np.exp(-TREE.along(REFERENCE_ZV).mean(axis=1))
    entropy, kl = -(policy_B @ np.log(policy_B)), policy_B @ np.log(policy_B / reference_B)
    return distance(TREE.steps * (policy_B @ np.log(ppl_B)), entropy + kl)
