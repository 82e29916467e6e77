"""Where the objectives end (Eqs. 1-6, 14-32): closed forms against gradient ascent."""

from math import comb

import numpy as np
import pytest
from optima import ascend, covering, covering_level, normalised, tilted
from scipy.special import log_softmax

from sage_cli.metrics import pass_at_k

BONUS = 0.3
SAMPLES = 16
CASES = [(seed, beta) for seed in range(3) for beta in (0.2, 0.5, 1.0)]
"""Below .2 the wrong completions' optimal mass is under exp(-1 / beta) = 1 %, and vanishes soon."""
every_case = pytest.mark.parametrize(("seed", "beta"), CASES)


def prompt(seed):
    """Return a reference, the right ones of its eight completions, and a guide's q of each."""
    generator = np.random.default_rng(seed)
    reference_B = normalised(1e-3 + generator.dirichlet(np.full(8, 0.5)))
    q_B = np.exp(generator.uniform(np.log(0.6), np.log(1.4), 8))
    return reference_B, (np.arange(8) < 3).astype(float), q_B


def reverse_slope(policy_B, reward_B, anchor_B, beta, bonus=0.0):
    """Return the derivative of E[r] - beta D(pi || anchor) + bonus H(pi) by pi, as in Eq. 16."""
    log_B = np.log(policy_B)
    return reward_B - beta * (log_B - np.log(anchor_B) + 1) - bonus * (log_B + 1)


def ascended(derivative, *parameters, size=8):
    """Return where ascent on the logits of an unrestricted policy ends."""

    def gradient(logit_B):
        policy_B = np.exp(log_softmax(logit_B))
        slope_B = derivative(policy_B, *parameters)
        return policy_B * (slope_B - policy_B @ slope_B)

    return np.exp(log_softmax(ascend(gradient, np.zeros(size))))


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@every_case
def test_exponential_tilting(seed, beta):
    """Eqs. 1, 2: ascent on E[r] - beta KL(pi || pi_ref) ends at pi_ref exp(r / beta) / Z. Not as
    printed: Eq. 2 multiplies every right completion by one factor above 1, so that pass@k falls for
    no k.
    """
    reference_B, right_B, _ = prompt(seed)
    found_B = ascended(reverse_slope, right_B, reference_B, beta)
    close(found_B, tilted(right_B, reference_B, beta))
    gain_B = (found_B / reference_B)[right_B > 0]
    np.testing.assert_allclose(gain_B, gain_B[0], rtol=1e-6)
    assert gain_B.min() > 1


@every_case
def test_shaped_anchor(seed, beta):
    """Eqs. 3, 4, 6: ascent on E[r] - beta D(pi || q pi_ref) ends at q pi_ref exp(r / beta) / Z; a
    constant factor on q changes nothing. Eqs. 14-18: there every completion's derivative is beta
    (log Z - 1), whether or not the anchor sums to one.
    """
    reference_B, right_B, q_B = prompt(seed)
    weight_B = q_B * reference_B * np.exp(right_B / beta)
    closed_B = normalised(weight_B)
    close(ascended(reverse_slope, right_B, q_B * reference_B, beta), closed_B)
    close(ascended(reverse_slope, right_B, 7 * q_B * reference_B, beta), closed_B)
    slope_B = reverse_slope(closed_B, right_B, q_B * reference_B, beta)
    close(slope_B, beta * (np.log(weight_B.sum()) - 1))


@every_case
def test_entropy_bonus(seed, beta):
    """Eqs. 19-21: an entropy bonus ends at Eq. 2's policy to the power beta / (beta + alpha_H), so
    that no two completions change places.
    """
    reference_B, right_B, _ = prompt(seed)
    closed_B = normalised(tilted(right_B, reference_B, beta) ** (beta / (beta + BONUS)))
    close(ascended(reverse_slope, right_B, reference_B, beta, BONUS), closed_B)


def forward_slope(policy_B, reward_B, reference_B, beta):
    """Return the derivative of E[r] - beta KL(pi_ref || pi) by pi."""
    return reward_B + beta * reference_B / policy_B


def level_of(right_mass, beta):
    """Return Eq. 27's lambda for r of 0 or 1, the larger root of a quadratic equation."""
    half = (1 + beta) / 2
    return half + np.sqrt(half**2 - beta * (1 - right_mass))


@every_case
def test_forward_kl(seed, beta):
    """Eq. 27: ascent on E[r] - beta KL(pi_ref || pi) ends at beta pi_ref / (lambda - r); of pi_ref
    lambda depends on the right mass alone. Eqs. 11, 27: the right mass falls as beta q rises.
    """
    reference_B, right_B, _ = prompt(seed)
    close(ascended(forward_slope, right_B, reference_B, beta), covering(right_B, reference_B, beta))
    close(covering_level(right_B, reference_B, beta), level_of(reference_B @ right_B, beta))
    rights = [covering(right_B, reference_B, beta * x) @ right_B for x in np.linspace(1, 1.4, 9)]
    assert (np.diff(rights) < 0).all()


@every_case
def test_the_shaped_optimum_is_a_reweighted_forward_kl(seed, beta):
    """Eqs. 28, 29: pi*_q is Eq. 27's policy times q exp(r / beta) (lambda - r) / beta, normalised.
    Given lambda the reference cancels, but lambda still holds its right mass.
    """
    reference_B, right_B, q_B = prompt(seed)
    level = level_of(reference_B @ right_B, beta)
    weight_B = q_B * np.exp(right_B / beta) * (level - right_B) / beta
    found_B = normalised(weight_B * covering(right_B, reference_B, beta))
    close(found_B, tilted(right_B, q_B * reference_B, beta))


def preference_needed(right_mass, beta):
    """Return Eq. 32's bound on q(right) / q(wrong)."""
    level = level_of(right_mass, beta)
    return np.exp(-1 / beta) * level / (level - 1)


def test_less_off_target():
    """Eqs. 30-32: where q(right) / q(wrong) exceeds the bound for all pairs, SAGE leaves less mass
    on wrong completions than forward KL; the condition is not necessary.
    """
    met = fewer = 0
    for seed, beta in CASES:
        reference_B, right_B, base_B = prompt(seed)
        right = right_B > 0
        for strength in np.linspace(-1, 1, 21):
            q_B = base_B * np.exp(strength * right_B)
            less = tilted(right_B, q_B * reference_B, beta)[~right].sum() < (
                covering(right_B, reference_B, beta)[~right].sum()
            )
            fewer += less
            bound = preference_needed(reference_B @ right_B, beta)
            if q_B[right].min() / q_B[~right].max() > bound:
                met += 1
                assert less
    assert 0 < met < fewer


def test_a_weak_preference_may_not_do():
    """Eq. 32, not as printed: at beta = .5 and a right mass of .1 the bound exceeds 1, and a guide
    without preference leaves more on wrong completions than forward KL.
    """
    reference_2, right_2 = np.array([0.1, 0.9]), np.array([1.0, 0.0])
    # odds wrong : right are .9 : .1 e^2 = 1.21802, and .9 / lambda : .1 / (lambda - 1) = .70820
    anchored = tilted(right_2, reference_2, 0.5)[1]
    covered = covering(right_2, reference_2, 0.5)[1]
    assert (anchored, covered) == pytest.approx((0.549146, 0.414590), abs=1e-5)
    # lambda = .75 + sqrt(.5625 - .45) = 1.085410; e^-2 lambda / .085410 = 1.71987
    assert preference_needed(0.1, 0.5) == pytest.approx(1.71987, abs=1e-5)
    assert preference_needed(0.01, 0.05) == pytest.approx(3.92e-6, rel=1e-3)


PLACE_B = np.linspace(-4, 4, 81)
BUMP_BW = np.stack([PLACE_B, -(PLACE_B**2)], axis=1)


def bump(derivative, centre):
    """Return the policy of one bump at which ascent from `centre` ends, and what was climbed to."""
    left_B, right_B = (np.exp(-((PLACE_B - mode) ** 2) / 0.5) for mode in (-2, 2))
    reference_B = normalised(3 * left_B + 2 * right_B)

    def gradient(parameters_W):
        policy_B = np.exp(log_softmax(BUMP_BW @ parameters_W))
        slope_B = derivative(policy_B, np.zeros(81), reference_B, 1.0)
        return BUMP_BW.T @ (policy_B * (slope_B - policy_B @ slope_B))

    return np.exp(log_softmax(BUMP_BW @ ascend(gradient, np.array([2 * centre, 1.0])))), reference_B


def test_mode_covering():
    """Eq. 27, Fig. 5: the bump nearest by forward KL has the reference's mean and variance, and
    covers the valley between its two modes.
    """
    bump_B, reference_B = bump(forward_slope, 0.0)
    close(bump_B @ BUMP_BW, reference_B @ BUMP_BW)
    valley = np.abs(PLACE_B) < 1.05
    assert bump_B[valley].sum() > 10 * reference_B[valley].sum()


@pytest.mark.parametrize("mode", [-2.0, 2.0])
def test_mode_seeking(mode):
    """Eq. 1, Fig. 5: a bump fitted by reverse KL stops on whichever mode it starts near. A policy
    that can be any distribution doesn't (`test_exponential_tilting`).
    """
    bump_B, _ = bump(reverse_slope, mode)
    assert bump_B[np.abs(PLACE_B - mode) < 1.05].sum() > 0.95


def test_pass_at_k_is_unbiased():
    """1 - C(n - c, k) / C(n, k) has the mean 1 - (1 - p)^k for every k up to n."""
    counts, ks = np.arange(SAMPLES + 1), np.arange(1, SAMPLES + 1)
    values_NK = pass_at_k(np.full(SAMPLES + 1, SAMPLES), counts, ks.tolist())
    for chance in (0.01, 0.2, 0.7):
        weights = [comb(SAMPLES, c) * chance**c * (1 - chance) ** (SAMPLES - c) for c in counts]
        close(np.asarray(weights) @ values_NK, 1 - (1 - chance) ** ks, 1e-12)


def test_pattern_frequency():
    """Eq. 13: given one right solution the share with a pattern has the mean P(pattern | right);
    but a problem counts with chance 1 - (1 - p)^n, so policies are averaged over different ones.
    """
    for right in (0.02, 0.6):
        share = counted = 0.0
        for c in range(1, SAMPLES + 1):
            chance = comb(SAMPLES, c) * right**c * (1 - right) ** (SAMPLES - c)
            share += chance * sum(
                comb(c, m) * 0.3**m * 0.7 ** (c - m) * m / c for m in range(c + 1)
            )
            counted += chance
        close(share / counted, 0.3, 1e-12)
        close(counted, 1 - (1 - right) ** SAMPLES, 1e-12)
