"""The loss of guided RL in double precision, by logits, against the formulas of `plain_loss`."""

import pytest
import torch
from plain_loss import Formula
from toy_policy import PROMPTS, reference_completions
from trl import GRPOTrainer

from sage_cli.guides import BranchGuide, NoGuide, RandomGuide, TokenGuide

ROWS, TOKENS, ENTRIES, LIMIT, BETA, STEP, STEPS = 5, 8, 7, 9, 0.07, 37, 200
LENGTHS = (8, 5, 3, 7, 6)
LOW, HIGH, HIGH_CISPO = 0.2, 0.28, 5.0
IDS = (4, 0, 3, 1, 2)
"""The rows' places in the generation batch."""
GUIDES = {
    "none": NoGuide(),
    "branch": BranchGuide(tau=1.2, rho=0.8),
    "token": TokenGuide(),
    "random": RandomGuide(epsilon=(0.6, 0.3)),
}
CASES = [
    # loss, level, guide, estimator, tokens held, off-policy
    ("grpo", "token", "branch", "k3", "all", False),
    ("dapo", "token", "branch", "k3", "all", True),
    ("bnpo", "token", "branch", "k3", "all", False),
    ("grpo", "token", "token", "k3", "all", True),
    ("dr_grpo", "token", "random", "k3", "all", False),
    ("grpo", "token", "none", "k3", "all", True),
    ("grpo", "token", "branch", "reward", "all", False),
    ("dapo", "token", "token", "reward", "all", False),
    ("grpo", "token", "branch", "k3-corrected", "all", True),
    ("bnpo", "token", "random", "reward", "all", True),
    ("dapo", "token", "token", "k3-corrected", "all", True),
    ("dr_grpo", "token", "none", "reward", "all", False),
    ("dapo", "token", "random", "k3", "all", True),
    ("dapo", "token", "none", "none", "all", True),
    ("cispo", "token", "branch", "k3", "all", True),
    ("cispo", "token", "token", "reward", "all", True),
    ("sapo", "token", "branch", "k3", "all", True),
    ("sapo", "token", "random", "k3-corrected", "all", True),
    ("luspo", "sequence", "branch", "k3", "all", True),
    ("luspo", "token", "token", "k3", "all", True),
    ("vespo", "token", "branch", "k3", "all", True),
    ("grpo", "sequence", "token", "k3", "all", True),
    ("grpo", "sequence", "branch", "k3-corrected", "all", True),
    ("grpo", "token", "branch", "k3", "uncertain", True),
    ("dapo", "token", "token", "reward", "uncertain", False),
    ("dapo", "token", "random", "k3-corrected", "certain", True),
]


def expected_loss(case, logits_BTV, batch):
    loss, level, guide, estimator, held, off_policy = case
    formula = Formula(
        *(loss, level, guide, estimator, held),
        beta=BETA,
        step=STEP,
        steps=STEPS,
        limit=LIMIT,
        tau=1.2,
        rho=0.8,
        epsilon=(0.6, 0.3),
        low=LOW,
        high=HIGH_CISPO if loss == "cispo" else HIGH,
    )
    terms = []
    for b, length in enumerate(LENGTHS):
        logps_TV = logits_BTV[b, :length].log_softmax(-1)
        logps = logps_TV[range(length), batch["completion_ids"][b, :length]]
        entropies = (-(logps_TV.exp() * logps_TV).sum(-1)).tolist()
        reference = batch["ref_per_token_logps"][b, :length] if estimator != "none" else None
        old = batch["old_per_token_logps"][b, :length] if off_policy else logps.detach()
        advantage = float(batch["advantages"][b])
        terms.append(formula.terms(IDS[b], logps, entropies, reference, old, advantage))
    return formula.aggregated(terms)


# the trainer's side


def batch_of(case, logits_BTV):
    generator = torch.Generator().manual_seed(8)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ids_BT = torch.randint(0, ENTRIES, (ROWS, TOKENS), generator=generator)
    mask_BT = (torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]).long()
    near_BTV = (logits_BTV.detach() + 0.6 * draw(ROWS, TOKENS, ENTRIES)).log_softmax(-1)
    logps_BT = logits_BTV.detach().log_softmax(-1).gather(2, ids_BT[..., None])[..., 0]
    batch = {
        "prompt_ids": torch.zeros(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2, dtype=torch.long),
        "completion_ids": ids_BT,
        "completion_mask": mask_BT,
        "advantages": draw(ROWS),
        "row_ids_B": torch.tensor(IDS),
        "num_items_in_batch": mask_BT.sum(),
        "prompt_row_B": torch.arange(ROWS) % 3,
    }
    if case[3] != "none":
        batch["ref_per_token_logps"] = near_BTV.gather(2, ids_BT[..., None])[..., 0]
    if case[-1]:
        batch["old_per_token_logps"] = logps_BT + 0.3 * draw(ROWS, TOKENS)
    return batch


def of_logits(logits_BTV, ids_BT):
    """What a pass says, in double precision."""
    logps_BTV = logits_BTV.log_softmax(-1)
    entropy_BT = -(logps_BTV.exp() * logps_BTV).sum(-1)
    return logps_BTV.gather(2, ids_BT[..., None])[..., 0], entropy_BT, None


@pytest.fixture
def prepared(bench, configure):
    def prepare(case, **anchor):
        loss, level, guide, estimator, held, _ = case
        kl = {"kl": "none"} if estimator == "none" else {"estimator": estimator, "beta": BETA}
        tokens = {} if held == "all" else {"tokens": held, "uncertain_share": 0.2}
        config = configure(
            rl={"loss": "grpo", "micro_batch": 8, "steps": STEPS},
            rollout={"max_tokens": LIMIT},
            anchor=kl | tokens | anchor,
        )
        given = {"reference_completions": reference_completions()} if "kl" in anchor else {}
        trainer = bench.trainer(config, **given)
        trainer.guide = GUIDES[guide].for_training(STEPS)
        # `sage` refuses some of these, which TRL computes all the same
        trainer.loss_type, trainer.importance_sampling_level = loss, level
        trainer.epsilon_low = LOW
        trainer.epsilon_high = HIGH_CISPO if loss == "cispo" else HIGH
        trainer.args.steps_per_generation = 1
        trainer.current_gradient_accumulation_steps = 1
        trainer.state.global_step = STEP
        trainer.model.train()
        return trainer

    return prepare


@pytest.fixture(name="logits_BTV")
def logits():
    generator = torch.Generator().manual_seed(2)
    drawn_BTV = torch.randn(ROWS, TOKENS, ENTRIES, generator=generator, dtype=torch.float64)
    return (1.2 * drawn_BTV).requires_grad_()


def same(found, expected, logits_BTV):
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-9)
    mine, (theirs,) = (
        torch.autograd.grad(found, logits_BTV),
        torch.autograd.grad(expected, logits_BTV),
    )
    torch.testing.assert_close(mine[0], theirs, atol=1e-10, rtol=1e-9)
    assert theirs.abs().max() > 1e-4


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_loss_and_gradient_by_logits(prepared, monkeypatch, logits_BTV, case):
    trainer, batch = prepared(case), batch_of(case, logits_BTV)
    said = of_logits(logits_BTV, batch["completion_ids"])
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", lambda *_, **__: said)
    untouched = {name: value.clone() for name, value in batch.items()}
    found = trainer._compute_loss(trainer.model, batch)
    same(found, expected_loss(case, logits_BTV, batch), logits_BTV)
    assert all(torch.equal(batch[name], value) for name, value in untouched.items())


def test_forward_kl_adds_the_cross_entropy_of_the_references_texts(
    prepared, monkeypatch, logits_BTV
):
    case = ("grpo", "token", "none", "none", "all", True)
    trainer, batch = prepared(case, kl="forward", beta=BETA), batch_of(case, logits_BTV)
    passes = []

    def answer(_self, _model, _ids, mask, tokens, *_, **__):
        if not passes:
            passes.append(of_logits(logits_BTV, batch["completion_ids"]))
        else:  # the completions of the reference: log-probabilities made of the same leaf
            share_BT = logits_BTV.sum(-1).repeat(1, 4)[:, :tokens]
            passes.append((-share_BT.exp(), None, None))
            masks.append(mask[:, -tokens:])
        return passes[-1]

    masks = []
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", answer)
    found = trainer._compute_loss(trainer.model, batch)
    (mask_BT,) = masks
    tokens = mask_BT.shape[1]
    shares = (logits_BTV.sum(-1).repeat(1, 4)[:, :tokens]).exp()
    forward = 0.0
    for b in range(ROWS):
        length = int(mask_BT[b].sum())
        assert length > 0
        forward = forward + shares[b, :length].sum() / length
    plain = expected_loss(case, logits_BTV, batch)
    same(found, plain + BETA * forward / ROWS, logits_BTV)
    assert len(PROMPTS) > ROWS // 2
