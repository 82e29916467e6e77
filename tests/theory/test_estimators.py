"""The estimators' expected gradients (Eqs. 5-11, 38): the package's losses by autograd, against
derivatives that are written out.

On-policy and untruncated, with plain sums over tokens. A gradient is the divergence's, to be
descended; the reward's is the same under all of them.
"""

import numpy as np
import pytest
import torch
from enumeration import (
    Tree,
    ascend,
    close,
    covering,
    entropies,
    k3_corrected,
    log_softmax,
    random_policy,
    slope,
    tilted,
)

from sage_cli.guides import BranchGuide, RandomGuide, TokenGuide
from sage_cli.guides.divergences import forward_cross_entropy, head_kl, k3, log_ratio, reward_to_go

TREE = Tree(vocabulary=3, steps=3)
POLICY_ZV = random_policy(TREE, seed=3, spread=1.5)
REFERENCE_ZV = random_policy(TREE, seed=4)
NONE_BT = np.zeros(TREE.tokens_BT.shape)
RANDOM_BT, TOKEN_BT, BRANCH_BT = (
    TREE.log_q(guide, POLICY_ZV)
    for guide in (RandomGuide(epsilon=(0.5, 0.0)), TokenGuide(), BranchGuide(tau=0.5, rho=0.8))
)
ESTIMATORS = ("k3", "k3-corrected", "reward")
every_guide = pytest.mark.parametrize(
    "log_q_BT", [RANDOM_BT, TOKEN_BT, BRANCH_BT], ids=["random", "token", "branch"]
)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def loss(estimator, logps_BT, reference_BT, log_q_BT):
    if estimator == "k3":
        return k3(logps_BT, reference_BT, log_q_BT)
    if estimator == "k3-corrected":
        return k3_corrected(logps_BT, reference_BT, logps_BT.detach(), log_q_BT)
    ratio_BT = log_ratio(logps_BT, reference_BT, log_q_BT)
    return -reward_to_go(ratio_BT, torch.ones_like(ratio_BT), beta=1.0) * logps_BT


def gradient(estimator, log_q_BT, policy_ZV=POLICY_ZV, reference_ZV=REFERENCE_ZV, tree=TREE):
    """Return the expected gradient of a loss by the logits over the policy's completions."""
    logit_ZV = torch.from_numpy(policy_ZV).clone().requires_grad_()
    logps_BT = logit_ZV.log_softmax(dim=1)[tree.states_BT, tree.tokens_BT]
    reference_BT = torch.from_numpy(tree.along(reference_ZV))
    loss_BT = loss(estimator, logps_BT, reference_BT, torch.from_numpy(log_q_BT))
    return slope(torch.from_numpy(tree.masses(policy_ZV)) * loss_BT.sum(dim=1), logit_ZV)


def exact_gradient(log_q_BT):
    """Return Eq. 6's gradient: the whole completion's log-ratio on each of its tokens."""
    whole_B = (TREE.along(POLICY_ZV - REFERENCE_ZV) - log_q_BT).sum(axis=1)
    return TREE.ascent(TREE.repeated(whole_B), POLICY_ZV)


@every_guide
def test_k3_pulls_forward(log_q_BT):
    """Eq. 38, not as printed: k3 as a loss term has the gradient -sum_v q pi_ref(v) grad log pi(v)
    at each visited state, the forward KL's from q pi_ref and not the reverse KL's of Eqs. 1 and 6.
    """
    weight_ZV = TREE.mean(np.exp(log_q_BT), POLICY_ZV) * np.exp(REFERENCE_ZV)
    pull_ZV = weight_ZV.sum(axis=1, keepdims=True) * np.exp(POLICY_ZV) - weight_ZV
    close(gradient("k3", log_q_BT), TREE.visits(POLICY_ZV)[:, None] * pull_ZV)


def test_branch_under_k3():
    """Eqs. 11, 38: branch multiplies each state's pull to the reference by q_t, so the policy is
    held closer to it where the entropy is high.
    """
    q_Z1 = TREE.mean(np.exp(BRANCH_BT), POLICY_ZV)[:, :1]
    assert q_Z1.max() > 1.1
    close(gradient("k3", BRANCH_BT), q_Z1 * gradient("k3", NONE_BT))


@every_guide
def test_k3_corrected_is_the_tokens_reverse_kl(log_q_BT):
    """Eqs. 5, 38: k3 times the importance ratio has the reverse KL's gradient at each visited
    state, without credit for later tokens.
    """
    ratio_ZV = POLICY_ZV - TREE.mean(log_q_BT, POLICY_ZV) - REFERENCE_ZV
    mean_Z1 = (np.exp(POLICY_ZV) * ratio_ZV).sum(axis=1, keepdims=True)
    exact_ZV = TREE.visits(POLICY_ZV)[:, None] * np.exp(POLICY_ZV) * (ratio_ZV - mean_Z1)
    close(gradient("k3-corrected", log_q_BT), exact_ZV)


@every_guide
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_head_is_the_tokens_reverse_kl(log_q_BT, tokens):
    """Eq. 5: the divergence over any number of likeliest tokens, and past them its sampled
    estimate, has the reverse KL's gradient at each visited state.
    """
    anchor_ZV = torch.from_numpy(REFERENCE_ZV + TREE.mean(log_q_BT, POLICY_ZV))
    logit_ZV = torch.from_numpy(POLICY_ZV).clone().requires_grad_()
    logps_ZV = logit_ZV.log_softmax(dim=1)
    kl_Z = (logps_ZV.exp() * (logps_ZV - anchor_ZV)).sum(dim=1)
    exact_ZV = slope(torch.from_numpy(TREE.visits(POLICY_ZV)) * kl_Z, logit_ZV)
    head_ZH = torch.from_numpy(REFERENCE_ZV).topk(tokens).indices
    logps_BT = logps_ZV[TREE.states_BT, TREE.tokens_BT]
    loss_BT = head_kl(
        logps_ZV.gather(1, head_ZH)[TREE.states_BT],
        anchor_ZV.gather(1, head_ZH)[TREE.states_BT],
        (head_ZH[TREE.states_BT] == torch.from_numpy(TREE.tokens_BT)[..., None]).any(dim=-1),
        logps_BT - anchor_ZV[TREE.states_BT, TREE.tokens_BT],
        (logps_BT - logps_BT.detach()).exp(),
    )
    mass_B1 = torch.from_numpy(TREE.masses(POLICY_ZV))[:, None]
    close(slope(mass_B1 * loss_BT, logit_ZV), exact_ZV)


def test_branch_under_k3_corrected():
    """Eqs. 11, 38: branch drops out in expectation, since q is the same for all tokens of a state,
    hence a baseline; only its variance is left.
    """
    close(gradient("k3-corrected", BRANCH_BT), gradient("k3-corrected", NONE_BT))


@pytest.mark.parametrize("log_q_BT", [NONE_BT, BRANCH_BT], ids=["none", "branch"])
def test_reward_is_exact(log_q_BT):
    """Eqs. 5, 6, 8: the divergence as a reward-to-go has the exact gradient of Eq. 6; branch then
    pays the policy for reaching states of high entropy.
    """
    close(gradient("reward", log_q_BT), exact_gradient(log_q_BT))


def test_token_under_reward():
    """Eqs. 6, 10, not as printed: token's q of earlier tokens depends on later ones, which a
    reward-to-go leaves out: its gradient is not Eq. 6's, by exactly their covariance with the
    score.
    """
    left_out_ZV = TREE.ascent(TOKEN_BT - TOKEN_BT.cumsum(axis=1), POLICY_ZV)
    exact_ZV = exact_gradient(TOKEN_BT)
    close(gradient("reward", TOKEN_BT) + left_out_ZV, exact_ZV)
    assert np.linalg.norm(left_out_ZV) > 0.02 * np.linalg.norm(exact_ZV)


@every_estimator
@pytest.mark.parametrize("size", [0.05, 0.15, 0.4])
def test_random_is_noise_alone(estimator, size):
    """Eqs. 9, 38, not as printed: in the mean over its noise, a mixture of symmetric pairs, the
    random guide leaves every estimator's gradient as it is without a guide.
    """
    sign_BT = np.random.default_rng(6).choice([-1, 1], TREE.tokens_BT.shape)
    pair = [gradient(estimator, np.log1p(shift * sign_BT)) for shift in (size, -size)]
    close(sum(pair) / 2, gradient(estimator, NONE_BT))


def test_cross_entropy_is_the_forward_kl():
    """Eq. 27: on the reference's own completions the loss of `anchor.kl=forward` has the forward
    KL's gradient, per token.
    """
    logit_ZV = torch.from_numpy(POLICY_ZV).clone().requires_grad_()
    logps_BT = logit_ZV.log_softmax(dim=1)[TREE.states_BT, TREE.tokens_BT]
    mass_B = torch.from_numpy(TREE.masses(REFERENCE_ZV))
    ones_1T = torch.ones(1, TREE.steps)
    rows = [forward_cross_entropy(row_T[None], ones_1T) for row_T in logps_BT]
    kl_B = mass_B * (mass_B.log() - logps_BT.sum(dim=1))
    close(slope(mass_B * torch.stack(rows), logit_ZV), slope(kl_B, logit_ZV) / TREE.steps)


def test_other_forms():
    """Eq. 38, sample by sample: with r = pi_ref / pi, k2 = d^2 / 2 has k3-corrected's gradient, k3
    has 1 - r, and r log r - (r - 1) differentiated directly has -r log r, which is neither.
    """
    logps_BT = torch.from_numpy(TREE.along(POLICY_ZV)).requires_grad_()
    reference_BT = torch.from_numpy(TREE.along(REFERENCE_ZV))
    d_BT = reference_BT - logps_BT
    r_BT = d_BT.detach().exp()
    corrected_BT = k3_corrected(logps_BT, reference_BT, logps_BT.detach())
    close(slope(corrected_BT, logps_BT), slope(d_BT.square() / 2, logps_BT))
    close(slope(k3(logps_BT, reference_BT), logps_BT), 1 - r_BT)
    close(slope(d_BT.exp() * d_BT - d_BT.exp() + 1, logps_BT), -r_BT * r_BT.log())


# the toy of Theorem 4.3 (Appendix C): a frequent and a rare right answer of two tokens; q is fixed
TOY = Tree(vocabulary=6, steps=2)
BETA, DELTA = 0.2, 0.0065
"""Delta is Def. 4.1's threshold, between the rare answer's mass without the guide and with it."""
SURE = (0.90, 0.02, 0.02, 0.02, 0.02, 0.02)
PROMPT = (0.95, 0.03, 0.005, 0.005, 0.005, 0.005)
"""Token 0 is the frequent way, token 1 the rare; after token 1 everything is open."""
TOY_ZV = np.log([PROMPT, SURE, (1 / 6,) * 6, *(SURE,) * 4])
TOY_B = TOY.masses(TOY_ZV)
FREQUENT, RARE = 0, 6
RIGHT_B = np.isin(np.arange(36), (FREQUENT, RARE)).astype(float)
TOY_BT = TOY.log_q(BranchGuide(signal="reference"), TOY_ZV)
Q_B = np.exp(TOY_BT.sum(axis=1))
PLAIN_B, SHAPED_B = (tilted(RIGHT_B, anchor_B, BETA) for anchor_B in (TOY_B, Q_B * TOY_B))


def support(policy_B, delta):
    """Return supp_delta (Def. 4.1): the right completions with more mass than delta."""
    return set(np.flatnonzero((RIGHT_B > 0) & (policy_B > delta)).tolist())


def test_a_rare_right_answer_enters():
    """Eqs. 33-37, Thm 4.3: with the default branch guide Eq. 4 holds the rare right answer above
    delta, where Eq. 2 holds it below, by a factor q of 1.18.
    """
    q = 1 + 0.3 * (np.log(6) - 1.2)
    close([Q_B[RARE], Q_B[FREQUENT], TOY_B[RARE]], [q, 1, 0.005])
    total = 0.86 * np.exp(5) + 0.14
    close(PLAIN_B[RARE], 0.005 * np.exp(5) / total)
    # the rare answer and the five wrong ones beside it (.005 each) are weighted by q
    close(SHAPED_B[RARE], q * 0.005 * np.exp(5) / (total + (q - 1) * (0.005 * np.exp(5) + 0.025)))
    assert (support(PLAIN_B, DELTA), support(SHAPED_B, DELTA)) == ({FREQUENT}, {FREQUENT, RARE})


def test_the_optimum_expands_support():
    """Eq. 2, Thm 4.2, a counterexample: a right completion gains 1 / (p + (1 - p) exp(-1 / beta)),
    so that preserving the support is no property of the objective.
    """
    close(PLAIN_B[RARE], TOY_B[RARE] / (0.86 + 0.14 * np.exp(-1 / BETA)))
    assert support(PLAIN_B, 0.0055) - support(TOY_B, 0.0055) == {RARE}


def test_what_is_not_sampled_stays_out():
    """Def. 4.1, Thm 4.2: if rewards are known for sampled completions alone, a rare right answer
    enters exactly if it is among the M samples, with probability 1 - (1 - pi_ref)^M <= M delta.
    """
    rows = np.random.default_rng(0).random((20_000, 16)) < 0.005
    mass_3 = np.array([0.3, 0.005, 0.695])
    entered = [tilted(np.array([1.0, seen, 0.0]), mass_3, BETA)[1] > 0.01 for seen in (0.0, 1.0)]
    assert entered == [False, True]
    chance = 1 - (1 - 0.005) ** 16
    assert rows.any(axis=1).mean() == pytest.approx(chance, abs=4 * (chance / 20_000) ** 0.5)
    assert chance <= 16 * 0.01


def test_reweighting_by_q():
    """Eqs. 22-25: pi*_q is pi* times q / E_pi*[q], so that Theorem 4.3's condition is its
    conclusion in other words.
    """
    close(SHAPED_B, Q_B / (PLAIN_B @ Q_B) * PLAIN_B)


def test_the_printed_toy_is_impossible():
    """Eqs. 12, 33-37, not as printed: both answers sample their first token from one distribution,
    so a guide of the state can tell them apart only later.
    """
    entropy_BT = entropies(TOY_ZV)[TOY.states_BT]
    assert entropy_BT[FREQUENT, 0] == entropy_BT[RARE, 0]
    close(entropy_BT[RARE, 1], np.log(6))


def test_branch_lifts_right_and_wrong_alike():
    """Eqs. 4, 11: completions that pass the same states are lifted by one factor."""
    gain_B = (SHAPED_B / PLAIN_B)[TOY.tokens_BT[:, 0] == 1]
    close(gain_B, gain_B[0])
    assert gain_B[0] == pytest.approx(1.176, abs=1e-3)


def test_refreshing_undoes_it():
    """Eqs. 3, 4, Thm 4.3: where q is computed again from the trained policy, the branch closes, its
    entropy falls below tau, and the toy ends at Eq. 2.
    """
    policy_B = PLAIN_B
    for _ in range(10):
        log_q_BT = TOY.log_q(BranchGuide(), TOY.table(policy_B))
        policy_B = tilted(RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * TOY_B, BETA)
    close(policy_B, PLAIN_B)
    assert entropies(TOY.table(policy_B))[2] < 1.2 < entropies(TOY_ZV)[2]


def at_rest(estimator, log_q_BT, beta=BETA):
    """Return log pi(v | s) at which training with a guide of the state stops.

    Under `reward` it is Eq. 4. Under the token-level estimators each state has an optimum of its
    own, Eq. 27 (k3) or Eq. 2 (k3-corrected), for the chance of being right after each token.
    """
    if estimator == "reward":
        return TOY.table(tilted(RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * TOY_B, beta))
    solution = covering if estimator == "k3" else tilted
    anchor_ZV = np.exp(TOY_ZV + TOY.mean(log_q_BT, TOY_ZV))
    right_VV = RIGHT_B.reshape(6, 6)  # by first and second token
    after = [solution(right_VV[v], anchor_ZV[1 + v], beta) for v in range(6)]
    value_V = np.array([policy_V @ right_VV[v] for v, policy_V in enumerate(after)])
    return np.log([solution(value_V, anchor_ZV[0], beta), *after])


@every_estimator
@pytest.mark.parametrize("log_q_BT", [np.zeros_like(TOY_BT), TOY_BT], ids=["none", "branch"])
def test_where_each_estimator_stops(estimator, log_q_BT):
    """Eqs. 2, 4, 27, 38, not as printed: following the losses' expected gradients, only reward ends
    at Eq. 4; k3 ends at Eq. 27 state by state with beta q in beta's place, k3-corrected at Eq. 2
    state by state without q.
    """

    def force(logit_W):
        policy_ZV = log_softmax(logit_W.reshape(TOY_ZV.shape))
        pull_ZV = BETA * gradient(estimator, log_q_BT, policy_ZV, TOY_ZV, TOY)
        return (TOY.ascent(TOY.repeated(RIGHT_B), policy_ZV) - pull_ZV).ravel()

    found_ZV = log_softmax(ascend(force, TOY_ZV.ravel()).reshape(TOY_ZV.shape))
    found_B, expected_B = (TOY.masses(p_ZV) for p_ZV in (found_ZV, at_rest(estimator, log_q_BT)))
    np.testing.assert_allclose(found_B, expected_B, rtol=0, atol=1e-8)


@pytest.mark.parametrize("beta", [0.04, 0.1, 0.2, 0.4, 1.0])
def test_the_toy_under_each_estimator(beta):
    """Eq. 38, Thm 4.3, not as printed: branch lifts the rare right answer under reward alone, does
    nothing under k3-corrected, and under k3, the authors' estimator, lowers it.
    """
    lifted = {}
    for estimator in ESTIMATORS:
        plain, shaped = (
            TOY.masses(at_rest(estimator, log_q_BT, beta))[RARE]
            for log_q_BT in (np.zeros_like(TOY_BT), TOY_BT)
        )
        lifted[estimator] = shaped / plain
    assert lifted["k3"] < 0.95
    assert lifted["k3-corrected"] == pytest.approx(1, abs=1e-9)
    assert lifted["reward"] > 1.05
