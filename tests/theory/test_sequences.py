"""Guides and divergences token by token (Eqs. 5-12, 39): sums over completions and over states."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from enumeration import Tree, close, entropies, random_policy

from sage_cli.guides import BranchGuide, RandomGuide, Signals, TokenGuide

TREE = Tree(vocabulary=3, steps=3)
POLICY_ZV = random_policy(TREE, seed=3, spread=1.5)
REFERENCE_ZV = random_policy(TREE, seed=4)
POLICY_B, REFERENCE_B = TREE.masses(POLICY_ZV), TREE.masses(REFERENCE_ZV)
GUIDES = [RandomGuide(epsilon=(0.5, 0.0)), TokenGuide(), BranchGuide(tau=0.5, rho=0.8)]
"""The tree's entropies reach log 3, so that branch's tau is lower."""
every_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: type(guide).__name__)


def test_the_enumeration_by_hand():
    """From the prompt 1/4 and 3/4, after token 0 even, after token 1 always (nearly) token 0."""
    pair, logp_ZV = Tree(2, 2), np.log([[0.25, 0.75], [0.5, 0.5], [1 - 1e-15, 1e-15]])
    assert pair.tokens_BT.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    close(pair.masses(logp_ZV), [0.125, 0.125, 0.75, 0])
    close(pair.visits(logp_ZV), [1, 0.25, 0.75])
    found_ZV = pair.mean(np.array([[1.0, 5], [3, 6], [10, 7], [20, 8]]), logp_ZV)
    close(found_ZV[:2], [[2, 10], [5, 6]])
    close(TREE.table(POLICY_B), POLICY_ZV)


@every_guide
def test_pseudo_kl(guide):
    """Eqs. 3, 5: D(pi || q pi_ref) is the KL from the normalised anchor less the log of the
    anchor's sum, which is no function of pi: not normalising changes no gradient.
    """
    anchor_B = np.exp(TREE.log_q(guide, POLICY_ZV).sum(axis=1)) * REFERENCE_B
    proper = POLICY_B @ np.log(POLICY_B / (anchor_B / anchor_B.sum()))
    close(POLICY_B @ np.log(POLICY_B / anchor_B), proper - np.log(anchor_B.sum()))


@every_guide
def test_decomposition(guide):
    """Eqs. 7, 8: D over completions is the KL summed over the states that the policy visits, less
    the mean log q_t there.
    """
    log_q_BT = TREE.log_q(guide, POLICY_ZV)
    visits_Z, next_ZV = TREE.visits(POLICY_ZV), np.exp(POLICY_ZV)
    kl_Z = (next_ZV * (POLICY_ZV - REFERENCE_ZV)).sum(axis=1)
    whole = POLICY_B @ np.log(POLICY_B / (np.exp(log_q_BT).prod(axis=1) * REFERENCE_B))
    given_back = (visits_Z @ (next_ZV * TREE.mean(log_q_BT, POLICY_ZV))).sum()
    close(whole, visits_Z @ kl_Z - given_back)


def test_a_guide_that_looks_ahead():
    """Eqs. 7, 10, not as printed: branch's q_t depends on x and y_<t alone; token's depends on the
    tokens after t too, since its surprisal is normalised over the whole completion.
    """
    differs = []
    for guide in (GUIDES[2], TokenGuide(sigma=(0, 0))):
        log_q_BT = TREE.log_q(guide, POLICY_ZV)
        differs.append(np.abs(log_q_BT - TREE.along(TREE.mean(log_q_BT, POLICY_ZV))).max())
    assert differs[0] < 1e-12
    assert differs[1] > 0.2


def test_token_entropies():
    """Eq. 12: the entropies H_t on a completion's way sum up, in the mean, to the entropy over
    completions.
    """
    close(-(POLICY_B @ np.log(POLICY_B)), TREE.visits(POLICY_ZV) @ entropies(POLICY_ZV))


def test_perplexity():
    """Eq. 39: T times the mean log-perplexity of the policy's completions under the reference is
    the policy's entropy plus its KL.
    """
    ppl_B = np.exp(-TREE.along(REFERENCE_ZV).mean(axis=1))
    entropy, kl = -(POLICY_B @ np.log(POLICY_B)), POLICY_B @ np.log(POLICY_B / REFERENCE_B)
    close(TREE.steps * (POLICY_B @ np.log(ppl_B)), entropy + kl)


LOGPS_BT = torch.from_numpy(np.log(np.random.default_rng(5).uniform(0.01, 1.0, (6, 12))))
SIGNALS = Signals(LOGPS_BT, -LOGPS_BT, torch.ones(LOGPS_BT.shape))
normal_quantile = np.vectorize(NormalDist().inv_cdf)


def clipped_normal_mean(mean, deviation):
    """Return the mean of a normal variable that is clamped to [.6, 1.4], in closed form."""
    standard = NormalDist()
    below, above = (0.6 - mean) / deviation, (1.4 - mean) / deviation
    return (
        0.6 * standard.cdf(below)
        + 1.4 * (1 - standard.cdf(above))
        + mean * (standard.cdf(above) - standard.cdf(below))
        - deviation * (standard.pdf(above) - standard.pdf(below))
    )


def test_random_guide():
    """Eq. 9: q_t is 1 + sigma z where a uniform number is below epsilon and 1 elsewhere; over its
    noise it is 1 in the mean, inside the clamp too, and log q_t is below 0.
    """
    guide = RandomGuide()
    chosen_BT, uniform_BT = (u_BT.numpy() for u_BT in guide.noise(SIGNALS, 0))
    expected_BT = np.where(chosen_BT < 0.1, 1 + 0.15 * normal_quantile(uniform_BT), 1.0)
    close(guide.log_q(SIGNALS, 0).exp(), expected_BT.clip(0.6, 1.4), 1e-6)
    assert clipped_normal_mean(1.0, 0.15) == pytest.approx(1.0, abs=1e-15)
    q = _drawn(RandomGuide(epsilon=(1.0, 1.0)))
    assert q.mean() == pytest.approx(1.0, abs=4 * q.std() / len(q) ** 0.5)
    assert np.log(q).mean() == pytest.approx(-0.0113, abs=0.001)


def test_token_guide():
    """Eq. 10: q_t is normal with mean 1 + alpha w_t and deviation sigma w_t; the clamp takes a
    fifth of the most surprising token's mean shift.
    """
    guide = TokenGuide(norm="rank")
    noise_BT = normal_quantile(guide.noise(SIGNALS, 0)[0].numpy())
    w_BT = (-LOGPS_BT.numpy()).argsort(axis=1).argsort(axis=1) / (LOGPS_BT.shape[1] - 1)
    expected_BT = (1 + w_BT * (0.3 + 0.25 * noise_BT)).clip(0.6, 1.4)
    close(guide.log_q(SIGNALS, 0).exp(), expected_BT, 1e-6)
    # by hand: at mean 1.4 half lies at the end; the other half loses deviation / sqrt(2 pi)
    near = 1.4 - 0.01 / math.sqrt(2 * math.pi)
    assert clipped_normal_mean(1.4, 0.01) == pytest.approx(near, abs=1e-15)
    q = _drawn(TokenGuide())[::2]  # w = 1
    assert clipped_normal_mean(1.3, 0.25) == pytest.approx(1.243, abs=1e-3)
    assert q.mean() == pytest.approx(
        clipped_normal_mean(1.3, 0.25), abs=4 * q.std() / len(q) ** 0.5
    )


def test_branch_guide():
    """Eq. 11: q_t is 1 up to tau, rises by rho per nat above it, and stands at the clamp's 1.4 from
    tau + .4 / rho on.
    """
    entropy_T = np.linspace(0, 5, 501)
    entropy_BT = torch.from_numpy(entropy_T)[None]
    found_BT = BranchGuide().log_q(Signals(-entropy_BT, entropy_BT, torch.ones_like(entropy_BT)), 0)
    full = 1.2 + 0.4 / 0.3
    expected_T = [1 if h < 1.2 else 1 + 0.3 * (h - 1.2) if h < full else 1.4 for h in entropy_T]
    close(found_BT.exp()[0], expected_T)


def _drawn(guide):
    """Return a guide's q of 400,000 tokens, of which every second is the less likely."""
    logps_BT = torch.full((2000, 200), -1.0, dtype=torch.float64)
    logps_BT[:, ::2] = -3.0
    signals = Signals(logps_BT, -logps_BT, torch.ones_like(logps_BT))
    return guide.log_q(signals, 0).exp().numpy().ravel()
