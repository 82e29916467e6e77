"""Guides and estimators on enumerated sequences (Eqs. 5-12, 38, 39): sums over all completions.

A state is a prefix; Z counts states, of which a completion of T tokens passes T. A policy is a
table of log pi(v | s), (Z, V); B counts completions, W a policy's parameters.

The estimators' expected gradients are the package's losses' by autograd, against derivatives that
are written out: on-policy and untruncated, with plain sums over tokens. A gradient is the
divergence's, to be descended; the reward's is the same under all of them.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch
from optima import ascend, covering, tilted
from scipy.special import log_softmax

from sage_cli.guides import BranchGuide, RandomGuide, Signals, TokenGuide
from sage_cli.guides.divergences import forward_cross_entropy, head_kl, k3, log_ratio, reward_to_go

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-12)


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
    return log_softmax(spread * np.random.default_rng(seed).standard_normal(shape), axis=1)


def slope(value, by):
    """Return a sum's derivative, by autograd."""
    return torch.autograd.grad(value.sum(), by, retain_graph=True)[0].numpy()


def k3_corrected(logps_BT, reference_logps_BT, old_logps_BT, log_q_BT=0):
    """k3 times the importance ratio pi / pi_old, with gradient through both.

    On-policy its expected gradient is the exact per-token reverse KL's; a guide that depends on
    the state alone is a baseline there and drops out.
    """
    ratio_BT = (logps_BT - old_logps_BT).exp()
    return ratio_BT * k3(logps_BT, reference_logps_BT, log_q_BT)


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
    close(guide.log_q(SIGNALS, 0).exp(), expected_BT.clip(0.6, 1.4), atol=1e-6)
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
    close(guide.log_q(SIGNALS, 0).exp(), expected_BT, atol=1e-6)
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


NONE_BT = np.zeros(TREE.tokens_BT.shape)
RANDOM_BT, TOKEN_BT, BRANCH_BT = (TREE.log_q(guide, POLICY_ZV) for guide in GUIDES)
ESTIMATORS = ("k3", "k3-corrected", "reward")
every_log_q = pytest.mark.parametrize(
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


@every_log_q
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


@every_log_q
def test_k3_corrected_is_the_tokens_reverse_kl(log_q_BT):
    """Eqs. 5, 38: k3 times the importance ratio has the reverse KL's gradient at each visited
    state, without credit for later tokens.
    """
    ratio_ZV = POLICY_ZV - TREE.mean(log_q_BT, POLICY_ZV) - REFERENCE_ZV
    mean_Z1 = (np.exp(POLICY_ZV) * ratio_ZV).sum(axis=1, keepdims=True)
    exact_ZV = TREE.visits(POLICY_ZV)[:, None] * np.exp(POLICY_ZV) * (ratio_ZV - mean_Z1)
    close(gradient("k3-corrected", log_q_BT), exact_ZV)


@every_log_q
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
        policy_ZV = log_softmax(logit_W.reshape(TOY_ZV.shape), axis=1)
        pull_ZV = BETA * gradient(estimator, log_q_BT, policy_ZV, TOY_ZV, TOY)
        return (TOY.ascent(TOY.repeated(RIGHT_B), policy_ZV) - pull_ZV).ravel()

    found_ZV = log_softmax(ascend(force, TOY_ZV.ravel()).reshape(TOY_ZV.shape), axis=1)
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
