"""From tokens to completions: what Eqs. 5 to 8, 12 and 39 sum up to, by enumeration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.guides import BranchGuide, Guide, RandomGuide, TokenGuide
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.statement import Statement, distance
from sage_cli.theory.tree import Tree, drawn_policy, entropies

TREE = Tree(vocabulary=3, steps=3)
POLICY_SV = drawn_policy(TREE, seed=3, spread=1.5)
REFERENCE_SV = drawn_policy(TREE, seed=4)
GUIDES: dict[str, Guide] = {
    "random": RandomGuide(epsilon=(0.5, 0.0)),
    "token": TokenGuide(),
    "branch": BranchGuide(tau=0.5, rho=0.8),
}
"""The package's own guides; the tree's entropies reach log 3, so that branch's tau is lower."""


def log_qs() -> Iterator[tuple[str, FloatArray]]:
    """Each guide's name and what it says of the policy's completions, (B, T)."""
    for name, guide in GUIDES.items():
        yield name, TREE.log_q(guide, POLICY_SV)


def pseudo_kl() -> Statement:
    """Eqs. 3 and 5."""
    policy_B, reference_B = TREE.masses(POLICY_SV), TREE.masses(REFERENCE_SV)
    worst, sums = 0.0, {}
    for name, log_q_BT in log_qs():
        anchor_B = np.exp(log_q_BT.sum(axis=1)) * reference_B
        pseudo = policy_B @ np.log(policy_B / anchor_B)
        proper = policy_B @ np.log(policy_B / (anchor_B / anchor_B.sum()))
        worst = max(worst, distance(pseudo, proper - np.log(anchor_B.sum())))
        sums[f"sum of q pi_ref, {name}"] = float(anchor_B.sum())
    return Statement(
        "pseudo-KL", "3, 5",
        "D(pi || q pi_ref) is the KL from the normalised anchor less the log of the anchor's sum, "
        "which is no function of pi: not normalising changes no gradient, but D may be negative",
        worst, "as printed", sums,
    )  # fmt: skip


def decomposition() -> Statement:
    """Eqs. 7 and 8, over completions and over states."""
    policy_B, reference_B = TREE.masses(POLICY_SV), TREE.masses(REFERENCE_SV)
    visits_S, next_SV = TREE.visits(POLICY_SV), np.exp(POLICY_SV)
    kl_S = (next_SV * (POLICY_SV - REFERENCE_SV)).sum(axis=1)
    worst = 0.0
    for _, log_q_BT in log_qs():
        whole = policy_B @ np.log(policy_B / (np.exp(log_q_BT).prod(axis=1) * reference_B))
        given_back = (visits_S @ (next_SV * TREE.mean(log_q_BT, POLICY_SV))).sum()
        worst = max(worst, distance(whole, visits_S @ kl_S - given_back))
    return Statement(
        "decomposition", "7, 8",
        "D over completions is the KL summed over the states that the policy visits, less the mean "
        "log q_t there",
        worst, "as printed",
    )  # fmt: skip


def causal_guide() -> Statement:
    """Whether q_t is a function of x, y_<t and y_t, as Eq. 7 writes it."""
    spreads = {}
    for name, guide in (("branch", GUIDES["branch"]), ("token", TokenGuide(sigma=(0, 0)))):
        log_q_BT = TREE.log_q(guide, POLICY_SV)
        spreads[name] = distance(log_q_BT, TREE.along(TREE.mean(log_q_BT, POLICY_SV)))
    return Statement(
        "a guide that looks ahead", "7, 10",
        "branch's q_t depends on x and y_<t alone; token's depends on the tokens after t too, "
        "because its surprisal is normalised over the whole completion, and Eq. 7 doesn't allow "
        "that",
        spreads["branch"], "not as printed",
        {f"log q at one state and token differs by, {name}": v for name, v in spreads.items()},
    )  # fmt: skip


def entropy_chain() -> Statement:
    """Eq. 12 summed over what is visited."""
    policy_B = TREE.masses(POLICY_SV)
    whole = -(policy_B @ np.log(policy_B))
    return Statement(
        "token entropies", "12",
        "the entropies H_t of the states on a completion's way sum up, in the mean, to the entropy "
        "over completions",
        distance(whole, TREE.visits(POLICY_SV) @ entropies(POLICY_SV)), "as printed",
    )  # fmt: skip


def perplexity() -> Statement:
    """Eq. 39 under the reference, of the policy's completions."""
    policy_B, reference_B = TREE.masses(POLICY_SV), TREE.masses(REFERENCE_SV)
    ppl_B = np.exp(-TREE.along(REFERENCE_SV).mean(axis=1))
    entropy, kl = -(policy_B @ np.log(policy_B)), policy_B @ np.log(policy_B / reference_B)
    return Statement(
        "perplexity", "39",
        "T times the mean log-perplexity of the policy's completions under the reference is the "
        "policy's entropy plus its KL: it falls where the policy sharpens, and rises where it "
        "strays",
        distance(TREE.steps * (policy_B @ np.log(ppl_B)), entropy + kl), "as printed",
    )  # fmt: skip
