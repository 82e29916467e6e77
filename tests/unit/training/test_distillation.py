"""A policy that learns from a teacher, through real steps, against passes over single rows."""

import copy

import pytest
import torch
from random_model import random_model
from toy_policy import configuration

from sage_cli.errors import ConfigurationError
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.training.heads import cut_to
from sage_cli.training.reference import load_teacher

TEMPERATURE, BETA = 0.7, 0.6
TOLERANCE = 1e-4
"""Relative, of a whole gradient; float32 rows were seen to differ by 1.1e-5 at most."""
CASES = [
    # estimator, lora, entries beyond the tokens in the output of policy and teacher
    ("reward", False, 0, 0),
    ("reward", True, 0, 0),
    ("reward", False, 0, 7),
    ("reward", True, 5, 0),
    ("head", False, 0, 0),
    ("head", False, 5, 9),
    ("head", True, 5, 5),
]


def sharp_model(tokenizer, beyond, seed, **sizes):
    """A random model with as many entries more than tokens, whose entropies differ by state."""
    model = random_model(
        tokenizer,
        seed=seed,
        std=None,
        vocab_size=len(tokenizer) + beyond,
        tie_word_embeddings=False,
        num_attention_heads=2,
        num_key_value_heads=2,
        **sizes,
    )
    with torch.no_grad():
        model.lm_head.weight.mul_(60)
        # tempting, so that whoever doesn't cut them samples and counts them
        model.lm_head.weight[len(tokenizer) :] *= 2
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def policy_of(tokenizer, beyond, lora):
    model = sharp_model(tokenizer, beyond, 5, hidden_size=16, intermediate_size=32)
    model.name_or_path = "policy"
    if not lora:
        return model.train()
    section = configuration(model={"tuning": "lora", "lora": {"rank": 3, "dropout": 0.0}})
    adapted = attach_lora(model, section.model.lora)
    for name, weights in adapted.named_parameters():
        # or the first gradient of half of the adapter would be 0; five times as large, rounding in
        # float32 is multiplied so much that processors differ by 1e-4
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.1)
    return adapted.train()


def distilling(**sections):
    anchor = {"reference": "teacher", "beta": BETA, "estimator": "reward"}
    return configuration(
        rl={"rewards": [], **sections.pop("rl", {})},
        rollout={"temperature": TEMPERATURE, **sections.pop("rollout", {})},
        anchor={**anchor, **sections.pop("anchor", {})},
        **sections,
    )


def logps_of(model, prompt, completion, entries):
    """Float64 log-probabilities (T, V) of a single row over the tokens alone."""
    logits = model(input_ids=torch.tensor([prompt + completion]), use_cache=False).logits
    return (logits[0, len(prompt) - 1 : -1, :entries] / TEMPERATURE).log_softmax(-1)


def loss_of(rows, policy, teacher, estimator, entries):
    """The mean over rows of the mean over tokens: of each state's divergence, or by credit."""
    terms = []
    for prompt, completion in rows:
        policy_TV = logps_of(policy, prompt, completion, entries)
        with torch.no_grad():
            teacher_TV = logps_of(teacher, prompt, completion, entries)
        if estimator == "head":
            states_T = (policy_TV.exp() * (policy_TV - teacher_TV)).sum(-1)
            terms.append(BETA * states_T.mean())
            continue
        at = range(len(completion)), completion
        apart = [(policy_TV[at] - teacher_TV[at]).detach()[t:].sum() for t in at[0]]
        terms.append((BETA * torch.stack(apart) * policy_TV[at]).mean())
    return sum(terms) / len(terms)


def in_double(model):
    copied = copy.deepcopy(model)
    whole = copied.get_base_model() if hasattr(copied, "get_base_model") else copied
    whole.__dict__.pop("forward", None)  # TRL's
    whole.get_output_embeddings()._forward_hooks.clear()
    return copied.double().train(False)


def rows_in(batch):
    for row in range(len(batch["completion_ids"])):
        masks = batch["prompt_mask"][row].bool(), batch["completion_mask"][row].bool()
        yield (
            batch["prompt_ids"][row][masks[0]].tolist(),
            batch["completion_ids"][row][masks[1]].tolist(),
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_the_gradient_is_that_of_the_divergence_from_the_teacher(bench, case):
    estimator, lora, of_policy, of_teacher = case
    tokenizer = bench.tokenizer
    entries = len(tokenizer)
    teacher = sharp_model(tokenizer, of_teacher, 9, hidden_size=24, intermediate_size=40)
    policy = policy_of(tokenizer, of_policy, lora)
    tuning = {"tuning": "lora", "lora": {"rank": 3, "dropout": 0.0}} if lora else {}
    # 200 tokens are all that there are: then head is each state's whole divergence
    head = {"head_tokens": 200} if estimator == "head" else {}
    config = distilling(anchor={"estimator": estimator, **head}, model=tuning)
    trainer = bench.trainer(
        config,
        model=policy,
        reference=None,
        teacher=teacher.requires_grad_(False),
        vocabulary=entries if of_policy or of_teacher else None,
    )
    wanted = in_double(policy), in_double(teacher)
    trainer.model.train()
    trainer.create_optimizer()
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    assert int(inputs["completion_ids"].max()) < entries
    assert inputs["advantages"].abs().max() == 0
    trainer.current_gradient_accumulation_steps = 1
    trainer.compute_loss(trainer.model, inputs).backward()
    loss = loss_of(list(rows_in(inputs)), *wanted, estimator, entries)
    names, weights = zip(
        *((n, w) for n, w in wanted[0].named_parameters() if w.requires_grad), strict=True
    )
    expected = dict(zip(names, torch.autograd.grad(loss, weights, allow_unused=True), strict=True))
    found = dict(trainer.accelerator.unwrap_model(trainer.model).named_parameters())
    whole = torch.cat([g.flatten() for g in expected.values() if g is not None])
    ours = torch.cat(
        [found[n].grad.double().flatten() for n, g in expected.items() if g is not None]
    )
    assert whole.norm() > 1e-4
    assert (ours - whole).norm() / whole.norm() < TOLERANCE


def test_a_step_says_nothing_of_groups_and_pays_nothing(bench):
    teacher = sharp_model(bench.tokenizer, 0, 9, hidden_size=24, intermediate_size=40)
    records = bench.records(distilling(), reference=None, teacher=teacher)
    for record in records:
        assert "groups/zero_variance" not in record
        assert "reward/total" not in record
        assert 0 <= record["reward"] <= 1  # grades are recorded
        assert record["kl/reference"] > 0.05
        assert record["grad_norm"] > 0
    assert not any(weights.grad is not None for weights in teacher.parameters())
    assert not teacher.training


def test_entries_that_no_token_has_are_left_out_of_passes_alone(tokenizer):
    model = sharp_model(tokenizer, 3, 5, hidden_size=16, intermediate_size=32)
    head = model.get_output_embeddings()
    states = torch.randn(4, 16)
    with cut_to(model, len(tokenizer)):
        cut = model.get_output_embeddings()
        assert torch.equal(cut(states), head(states)[:, : len(tokenizer)])
        assert cut.weight.shape == (len(tokenizer), 16)
    assert model.get_output_embeddings() is head


def test_a_teacher_with_an_adapter_is_loaded_whole_frozen_and_still(bench, configure, tmp_path):
    from sage_cli.models.policy import Policy

    config = configure(model={"tuning": "lora", "lora": {"dropout": 0.3}})
    adapted = attach_lora(bench.policy(), config.model.lora)
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.1)
    adapted.save_pretrained(tmp_path / "adapter")
    teacher = load_teacher(Policy(str(tmp_path / "adapter")), config.model)
    assert not hasattr(teacher, "peft_config")
    assert not teacher.training
    assert not any(weights.requires_grad for weights in teacher.parameters())
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        expected = load_model(tmp_path / "adapter").eval()(ids).logits
        torch.testing.assert_close(teacher(ids).logits, expected, atol=1e-5, rtol=1e-5)


def test_a_teacher_that_reads_shorter_texts_is_refused(bench):
    teacher = sharp_model(
        bench.tokenizer, 0, 9, hidden_size=24, intermediate_size=40, max_position_embeddings=8
    )
    with pytest.raises(ConfigurationError, match="more than the model's context of 8"):
        bench.trainer(distilling(), reference=None, teacher=teacher)
