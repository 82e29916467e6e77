"""The whole loss and its gradient, for fixed log-probabilities, against plain formulas."""

from itertools import product

import numpy as np
import pytest
import torch
from trl import GRPOTrainer

from sage_cli.guides import BranchGuide, NoGuide, RandomGuide, Signals, TokenGuide

ROWS, TOKENS, LIMIT, BETA, ACCUMULATION, STEP = 4, 6, 9, 0.3, 2, 3
LOW, HIGH = 0.2, 0.28
GUIDES = [NoGuide(), BranchGuide(tau=1.0, rho=0.3), TokenGuide(), RandomGuide(epsilon=(0.8, 0.4))]


def batch_of(off_policy):
    """A buffered micro-batch, the policy's log-probabilities (a leaf) and entropies."""
    generator = torch.Generator().manual_seed(1)

    def draw():
        return torch.rand(ROWS, TOKENS, generator=generator)

    logps_BT = (-3 * draw()).requires_grad_()
    mask_BT = (torch.arange(TOKENS) < torch.tensor([[6], [3], [1], [5]])).long()
    batch = {
        "prompt_ids": torch.ones(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2, dtype=torch.long),
        "completion_ids": torch.ones(ROWS, TOKENS, dtype=torch.long),
        "completion_mask": mask_BT,
        "advantages": torch.tensor([1.2, -0.7, 0.4, -0.9]),
        "ref_per_token_logps": -3 * draw(),
        "num_items_in_batch": torch.tensor(37.0),
        "row_ids_B": torch.tensor([5, 2, 7, 0]),
        "right_B": torch.tensor([True, False, True, False]),
        "group_right_B": torch.tensor([0.5, 0.5, 1.0, 0.0]),
    }
    if off_policy:  # so far that both ends of the clipping are reached
        batch["old_per_token_logps"] = logps_BT.detach() + draw() - 0.5
    return batch, logps_BT, 3 * draw()


HELD = {
    "all": (1, 1, 1, 1),
    "informative": (1, 1, 0, 0),
    "wrong": (0, 1, 0, 1),
    "right": (1, 0, 1, 0),
}
"""The rows of that batch that each value of `anchor.rows` leaves to the KL term."""


def held_of(rows, tokens, entropy_BT):
    """The tokens of that batch that `anchor.rows` and `anchor.tokens` leave to the KL term."""
    held_BT = torch.tensor(HELD[rows])[:, None].repeat(1, TOKENS)
    for b, length in enumerate((6, 3, 1, 5)):
        threshold = np.quantile(entropy_BT[b, :length].double().numpy(), 0.7)
        above_T = entropy_BT[b].double() > threshold
        if tokens != "all":
            held_BT[b] *= above_T if tokens == "uncertain" else ~above_T
    return held_BT


def plain_loss(loss, estimator, batch, logps_BT, log_q_BT, held_BT):
    """The formulas, one completion and one token at a time."""
    old_BT = batch.get("old_per_token_logps", logps_BT.detach())
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    rows = []
    for b, length in enumerate(lengths):
        terms = []
        for t in range(length):
            d = log_q_BT[b, t] + batch["ref_per_token_logps"][b, t] - logps_BT[b, t]
            ratio = torch.exp(logps_BT[b, t] - old_BT[b, t])
            advantage = batch["advantages"][b]
            if estimator == "reward":
                later = slice(t, length)
                to_go = (
                    logps_BT[b, later] - log_q_BT[b, later] - batch["ref_per_token_logps"][b, later]
                )
                to_go = held_BT[b, later] * to_go.detach()
                advantage = advantage - BETA * to_go.sum()
            clipped = torch.clamp(ratio, 1 - LOW, 1 + HIGH)
            term = -torch.minimum(ratio * advantage, clipped * advantage)
            k3 = held_BT[b, t] * (torch.exp(d) - d - 1)
            if estimator == "k3":
                term = term + BETA * k3
            elif estimator == "k3-corrected":
                term = term + BETA * ratio * k3
            terms.append(term)
        rows.append(torch.stack(terms))
    total = torch.cat(rows).sum()
    if loss == "grpo":
        return sum(row.mean() for row in rows) / ROWS / ACCUMULATION
    if loss == "bnpo":
        return total / sum(lengths) / ACCUMULATION
    if loss == "dapo":
        return total / batch["num_items_in_batch"]
    return total / (ROWS * LIMIT) / ACCUMULATION


@pytest.fixture
def trainer_for(bench, configure):
    def build(loss, *, rl=None, **anchor):
        clip = {"epsilon_low": LOW, "epsilon_high": HIGH}
        share = {} if anchor.get("tokens", "all") == "all" else {"uncertain_share": 0.3}
        config = configure(
            rl={"loss": loss, "micro_batch": 8, **clip, **(rl or {})},
            rollout={"max_tokens": LIMIT},
            anchor={"beta": BETA, **share, **anchor},
        )
        trainer = bench.trainer(config)
        trainer.current_gradient_accumulation_steps = ACCUMULATION
        trainer.state.global_step = STEP
        trainer.model.train()
        return trainer

    return build


def answer(monkeypatch, logps_BT, entropy_BT):
    """Have every pass give these."""
    monkeypatch.setattr(
        GRPOTrainer,
        "_get_per_token_logps_and_entropies",
        lambda *_, **__: (logps_BT, entropy_BT, None),
    )


TERMS = [("none", "all", "all")] + [
    (estimator, rows, tokens)
    for estimator in ("k3", "k3-corrected", "reward")
    for rows, tokens in (
        ("all", "all"),
        ("informative", "all"),
        ("wrong", "all"),
        ("right", "all"),
        ("all", "certain"),
        ("all", "uncertain"),
        ("informative", "certain"),
    )
]
"""Estimators, without KL too, and the rows and tokens that are held."""


@pytest.mark.parametrize(("estimator", "rows", "tokens"), TERMS)
@pytest.mark.parametrize("loss", ["grpo", "bnpo", "dapo", "dr_grpo"])
def test_loss_and_gradient_equal_the_formulas(
    trainer_for, monkeypatch, loss, estimator, rows, tokens
):
    without = estimator == "none"
    kind = {"kl": "none"} if without else {"estimator": estimator}
    trainer = trainer_for(loss, rows=rows, tokens=tokens, **kind)
    gradients = []
    for guide, off_policy in product(GUIDES[:1] if without else GUIDES, [False, True]):
        trainer.guide = guide
        batch, logps_BT, entropy_BT = batch_of(off_policy)
        signals = Signals(
            logps_BT.detach(), entropy_BT, batch["completion_mask"], batch["row_ids_B"]
        )
        log_q_BT, held_BT = guide.log_q(signals, STEP), held_of(rows, tokens, entropy_BT)
        expected = plain_loss(loss, estimator, batch, logps_BT, log_q_BT, held_BT)
        (expected_gradient,) = torch.autograd.grad(expected, logps_BT)
        if without:
            del batch["ref_per_token_logps"]
        untouched = {name: value.clone() for name, value in batch.items()}
        answer(monkeypatch, logps_BT, entropy_BT)
        for _ in range(2):  # a later pass over the same batch finds it as it was
            found = trainer._compute_loss(trainer.model, batch)
            (found_gradient,) = torch.autograd.grad(found, logps_BT)
            torch.testing.assert_close(found_gradient, expected_gradient, atol=1e-6, rtol=0)
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        for name, value in untouched.items():
            assert torch.equal(batch[name], value)
        if not off_policy:
            gradients.append(found_gradient)
    if not without and (rows, tokens) == ("all", "all"):
        for first, second in ((0, 1), (0, 2), (0, 3), (1, 2)):  # each guide makes a difference
            assert (gradients[first] - gradients[second]).abs().max() > 1e-4


@pytest.mark.parametrize("estimator", ["k3", "k3-corrected", "reward"])
def test_an_annealed_anchor_is_one_of_its_present_beta(trainer_for, monkeypatch, estimator):
    annealed = trainer_for("grpo", estimator=estimator, schedule="cosine", rl={"steps": 12})
    # step 3 of 12: (1 + cos(pi / 4)) / 2
    beta = BETA * (1 + 0.5**0.5) / 2
    present = trainer_for("grpo", estimator=estimator, beta=beta)
    for guide in GUIDES:
        found = []
        for trainer in (annealed, present):
            trainer.guide = guide
            batch, logps_BT, entropy_BT = batch_of(off_policy=True)
            answer(monkeypatch, logps_BT, entropy_BT)
            loss = trainer._compute_loss(trainer.model, batch)
            found.append((loss, *torch.autograd.grad(loss, logps_BT)))
        torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=0)
        assert annealed.beta == 0  # or TRL would ask the reference, too


def surrogate(ratio_BT, advantages_BT, delta=torch.inf):
    clipped_BT = ratio_BT.clamp(1 - LOW, 1 + HIGH)
    return -torch.minimum(ratio_BT.clamp(max=delta) * advantages_BT, clipped_BT * advantages_BT)


@pytest.mark.parametrize(
    "rl",
    [
        {"delta": 1.4, "iterations": 2},
        {"importance_sampling_level": "sequence", "iterations": 2},
        {"entropy_coefficient": 0.7},
        {"top_entropy_quantile": 0.4},
    ],
    ids=lambda rl: next(iter(rl)),
)
def test_what_trl_offers_besides(trainer_for, monkeypatch, rl):
    trainer = trainer_for("grpo", kl="none", rl=rl)
    batch, logps_BT, entropy_BT = batch_of(off_policy=True)
    del batch["ref_per_token_logps"]
    entropy_BT.requires_grad_()
    mask_BT, advantages_BT = batch["completion_mask"], batch["advantages"][:, None]
    length_B1 = mask_BT.sum(dim=1, keepdim=True)
    log_ratio_BT = logps_BT - batch["old_per_token_logps"]
    if rl.get("importance_sampling_level") == "sequence":
        log_ratio_BT = (log_ratio_BT * mask_BT).sum(dim=1, keepdim=True) / length_B1
    term_BT = surrogate(log_ratio_BT.exp(), advantages_BT, rl.get("delta", torch.inf))
    if "top_entropy_quantile" in rl:
        # of 15 tokens those from the 60 % quantile up: ranks 8.4 to 14, which are six
        highest = entropy_BT[mask_BT.bool()].detach().sort().values[9]
        term_BT = term_BT * (entropy_BT.detach() >= highest)
    expected = ((term_BT * mask_BT) / length_B1).sum(dim=1).mean() / ACCUMULATION
    if "entropy_coefficient" in rl:
        expected = expected - 0.7 * (entropy_BT * mask_BT).sum() / mask_BT.sum() / ACCUMULATION

    answer(monkeypatch, logps_BT, entropy_BT)
    found = trainer._compute_loss(trainer.model, batch)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    leaves = [logps_BT, entropy_BT] if "entropy_coefficient" in rl else [logps_BT]
    gradients = zip(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True
    )
    for found_gradient, expected_gradient in gradients:
        torch.testing.assert_close(found_gradient, expected_gradient, atol=1e-6, rtol=0)
    # and it is another loss than without
    plain_BT = surrogate((logps_BT - batch["old_per_token_logps"]).exp(), advantages_BT)
    plain = ((plain_BT * mask_BT) / length_B1).sum(dim=1).mean() / ACCUMULATION
    assert abs(found.item() - plain.item()) > 1e-4


@pytest.mark.parametrize("estimator", ["k3", "reward"])
def test_an_advantage_for_each_token_weighs_each_token(trainer_for, monkeypatch, estimator):
    trainer = trainer_for("grpo", estimator=estimator)
    batch, logps_BT, entropy_BT = batch_of(off_policy=True)
    answer(monkeypatch, logps_BT, entropy_BT)
    by_row = trainer._compute_loss(trainer.model, batch)
    batch["advantages"] = batch["advantages"][:, None].expand(ROWS, TOKENS)
    torch.testing.assert_close(trainer._compute_loss(trainer.model, batch), by_row)
    (expected_BT,) = torch.autograd.grad(by_row, logps_BT)
    batch["advantages"] = batch["advantages"].clone()
    batch["advantages"][0, 2] = -2  # below 0 the ratio isn't clipped from above
    changed = trainer._compute_loss(trainer.model, batch)
    (found_BT,) = torch.autograd.grad(changed, logps_BT)
    elsewhere_BT = torch.ones(ROWS, TOKENS, dtype=torch.bool)
    elsewhere_BT[0, 2] = False
    torch.testing.assert_close(found_BT[elsewhere_BT], expected_BT[elsewhere_BT])
    assert found_BT[0, 2] != expected_BT[0, 2]
