"""Completions scored alone: equal to TRL's own passes, each prompt computed once, or left apart.

Then what guides ask for, in real trainings: the tilted reference, grades, rewards, groups.
"""

import copy
import math
import weakref
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from scored_batch import assert_same_gradients, generated, gradients_of
from torch.utils._python_dispatch import TorchDispatchMode
from toy_policy import PROMPTS, adapted
from transformers import AutoModelForCausalLM
from transformers.models.gemma2 import Gemma2Config
from transformers.models.llama import LlamaConfig
from transformers.models.mistral import MistralConfig
from transformers.models.qwen2 import Qwen2Config
from trl.trainer.utils import add_fused_lm_head

from sage_cli.errors import TrainingError
from sage_cli.guides import BranchGuide, Guide, NoGuide, TokenGuide
from sage_cli.guides.token_signals import TokenSignal
from sage_cli.models.loading import load_model
from sage_cli.training.guided_trainer import GuidedGRPOTrainer
from sage_cli.training.heads import TILE_STATES, HeadReader
from sage_cli.training.passes import completions_alone, prompt_names, regrouped

SHAPE = {
    "vocab_size": 53,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "pad_token_id": 0,
}
TEMPERATURE = 0.7
LLAMA = LlamaConfig(**SHAPE)
PROMPT, COMPLETION = 7, 5
NAMES = [3, 3, 8, 3, 8, 8]
"""Six rows of two prompts, not in order."""


def moved(bench):
    """Return the toy policy some way from its reference."""
    model = load_model(bench.base, trainable=True)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + 0.05 * torch.randn(weights.shape, generator=generator))
    return model


def log_probabilities(model, batch):
    """Return float64 log-probabilities (B, T, V) where the completions' tokens are predicted."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    tokens = batch["completion_ids"].shape[1]
    logits_BTV = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return (logits_BTV[:, -tokens - 1 : -1] / TEMPERATURE).log_softmax(dim=-1)


def of_tokens(logps_BTV, batch):
    return logps_BTV.gather(2, batch["completion_ids"][..., None])[..., 0]


def prepared(bench, configure, *, guide, anchor, model):
    """Return a trainer of the policy past its first step."""
    config = configure(
        guide=guide,
        rl={"loss": "grpo"},
        rollout={"temperature": TEMPERATURE, "min_p": 0.0},
        anchor=anchor,
    )
    trainer = bench.trainer(config, model=model)
    trainer.state.global_step = 1
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def causal_model(config, *, lora=None):
    """A model under TRL's fused head, with an adapter of that dropout if it is given."""
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if lora is not None:
        model = get_peft_model(
            model, LoraConfig(r=2, target_modules="all-linear", lora_dropout=lora)
        )
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.3)
    return model.train()


def rows(names=NAMES):
    """Ids and mask: a prompt of the second name is shorter, and two completions end early."""
    generator = torch.Generator().manual_seed(1)
    prompts = {name: torch.randint(1, 53, (PROMPT,), generator=generator) for name in (3, 8)}
    completions = torch.randint(1, 53, (len(NAMES), COMPLETION), generator=generator)
    ids = torch.cat([torch.stack([prompts[name] for name in NAMES]), completions], dim=1)
    if names is not NAMES:  # another token each, where all rows read it
        ids[:, 3] = torch.tensor(names)
    mask = torch.ones_like(ids)
    mask[[2, 4, 5], :3] = 0  # padded on the left
    mask[1, -2:] = mask[4, -1:] = 0
    return ids, mask


def scored(model, around, names=NAMES, **more):
    """Log-probabilities, entropies (B, T) and the gradient of their weighted sum."""
    ids, mask = rows(names)
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-COMPLETION] = -100
    model.zero_grad()
    with around:
        output = model(
            input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True, **more
        )
    logps_BT, entropy_BT = output.log_probs[:, -COMPLETION:], output.entropy[:, -COMPLETION:]
    weights_BT = torch.arange(logps_BT.numel()).reshape(logps_BT.shape).sin()
    (logps_BT * weights_BT).sum().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return logps_BT.detach(), entropy_BT.detach(), torch.cat([g.flatten() for g in gradients])


@contextmanager
def counted(model):
    """Positions that the model's first layer computes in each of its calls."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    positions = []
    layers = getattr(causal.base_model, "layers", None) or causal.base_model.h
    hook = layers[0].register_forward_pre_hook(
        lambda _module, arguments: positions.append(arguments[0].shape[:2].numel())
    )
    yield positions
    hook.remove()


@pytest.mark.parametrize(
    ("config", "lora"),
    [
        (LLAMA, None),
        (LLAMA, 0.0),
        (LlamaConfig(**SHAPE, tie_word_embeddings=True), None),
        (Qwen2Config(**SHAPE), 0.0),
        (MistralConfig(**SHAPE, sliding_window=None), None),
    ],
)
def test_shared_prompts_give_what_rows_apart_give(config, lora):
    model = causal_model(config, lora=lora)
    apart = scored(model, nullcontext())
    for share in (False, True):
        with counted(model) as positions:
            alone = scored(model, completions_alone(model, COMPLETION, share=share))
        for mine, theirs in zip(alone, apart, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        # two prompts of seven tokens; then six rows, whose last token predicts nothing
        assert positions == ([2 * 7, 6 * 4] if share else [6 * 12])
    after = scored(model, nullcontext())  # nothing stays changed
    assert all(map(torch.equal, after, apart))


WINDOWS = {"sliding_window": 4}


def rotary(kind, **factors):
    """A configuration whose positions are encoded otherwise in texts of more than eight tokens."""
    rope = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 8, **factors}
    return LlamaConfig(**SHAPE, max_position_embeddings=8, rope_parameters=rope)


@pytest.mark.parametrize(
    ("config", "checkpointing", "names"),
    [
        (Gemma2Config(**SHAPE, **WINDOWS), False, NAMES),
        (MistralConfig(**SHAPE, **WINDOWS), False, NAMES),
        (rotary("dynamic", factor=4.0), False, NAMES),
        (rotary("longrope", short_factor=[1.0, 1.0], long_factor=[3.0, 5.0]), False, NAMES),
        (LLAMA, True, NAMES),
        (LLAMA, False, [1, 2, 3, 4, 5, 6]),  # nothing is shared
    ],
)
def test_where_a_cache_cannot_stand_for_a_prompt_rows_stay_apart(config, checkpointing, names):
    model = causal_model(config)
    if checkpointing:
        model.gradient_checkpointing_enable()
    apart = scored(model, nullcontext(), names)
    with counted(model) as positions:
        alone = scored(model, completions_alone(model, COMPLETION, share=True), names)
    assert set(positions) == {6 * 12}
    for mine, theirs in zip(alone, apart, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_rows_with_dropout_have_their_own_noise():
    model = causal_model(LLAMA, lora=0.5)
    with counted(model) as positions:
        scored(model, completions_alone(model, COMPLETION, share=True))
    assert positions == [6 * 12]
    with counted(model) as positions, torch.no_grad():  # without noise there is none to keep apart
        model.eval()
        ids, mask = rows()
        with completions_alone(model, COMPLETION, share=True):
            model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True)
    assert positions == [2 * 7, 6 * 4]


def test_passes_over_parts_of_the_rows_share_what_these_have():
    model = causal_model(LLAMA).eval()
    ids, mask = rows()

    def logps(parts, *, share, names=None):
        with completions_alone(model, COMPLETION, share=share, names_B=names), torch.no_grad():
            outputs = [
                model(
                    input_ids=ids[part],
                    attention_mask=mask[part],
                    labels=ids[part],
                    fused_lm_head=True,
                ).log_probs
                for part in parts
            ]
        return torch.cat(outputs)

    apart = logps([slice(0, 6)], share=False)
    for names in (None, torch.tensor(NAMES)):
        with counted(model) as positions:
            in_parts = logps([slice(0, 4), slice(4, 6)], share=True, names=names)
        torch.testing.assert_close(in_parts, apart, rtol=1e-4, atol=1e-5)
        assert positions == [2 * 7, 4 * 4, 1 * 7, 2 * 4]


def test_names_are_of_prompts_alone():
    ids_BP = torch.tensor([[0, 5, 6], [5, 6, 0], [7, 5, 6], [0, 5, 6]])
    mask_BP = torch.tensor([[0, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]])
    a, b, c, d = prompt_names(ids_BP, mask_BP).tolist()
    assert a == b  # however they are padded
    assert len({a, c, d}) == 3  # with another beginning, and one that is read


def test_a_steps_rows_stand_beside_those_of_their_prompt():
    prompts = torch.tensor([[7], [5], [7], [6], [5], [6]])
    order = [0, 2, 1, 4, 3, 5]  # 7 7 5 | 5 6 6
    whole = {
        "prompt_ids": prompts,
        "prompt_names_B": prompts.flatten(),
        "completion_ids": torch.arange(12).reshape(6, 2),
        "num_items_in_batch": torch.tensor(9),
        "old_per_token_logps": None,
    }
    halves = [
        {
            key: value[part] if torch.is_tensor(value) and value.dim() else value
            for key, value in whole.items()
        }
        for part in (slice(0, 3), slice(3, 6))
    ]
    first, second = regrouped(halves)
    assert first["prompt_ids"].flatten().tolist() == [7, 7, 5]
    assert second["prompt_ids"].flatten().tolist() == [5, 6, 6]
    assert torch.equal(
        torch.cat([first["completion_ids"], second["completion_ids"]]),
        whole["completion_ids"][order],  # type: ignore[index]
    )
    assert first["num_items_in_batch"] == 9
    assert first["old_per_token_logps"] is None
    assert halves[0]["prompt_ids"].flatten().tolist() == [7, 5, 7]  # what was given stays


BETA = 0.3


def tilted(logps_BTV, phi, batch):
    """Return phi l - log sum_v P_v^phi."""
    return phi * of_tokens(logps_BTV, batch) - (phi * logps_BTV).logsumexp(dim=-1)


def stepped(bench, configure, *, old=False, **sections):
    """A trainer, its batch and loss after a backward pass, and the policy in double precision."""
    policy = moved(bench)
    double = copy.deepcopy(policy).double()
    trainer = prepared(bench, configure, model=policy, **sections)
    batch = generated(trainer)
    if old:
        noise = 0.2 * torch.rand(batch["ref_per_token_logps"].shape)
        batch["old_per_token_logps"] = batch["ref_per_token_logps"] + noise
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    return trainer, batch, loss.item(), double


def mean_of(term_BT, batch):
    mask_BT = batch["completion_mask"]
    return ((term_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)).mean()


@pytest.mark.parametrize("phi_right", [1.0, 0.8])
def test_loss_and_gradient_equal_the_formulas_in_double_precision(bench, configure, phi_right):
    guide = {"name": "rapo", "phi_right": phi_right, "phi_wrong": 0.4, "q_max": 30.0}
    trainer, batch, loss, double = stepped(bench, configure, guide=guide, anchor={"beta": BETA})
    texts = [
        bench.tokenizer.decode(ids[mask.bool()], skip_special_tokens=True)
        for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    right_B = torch.tensor([bool(text) and ord(text[0]) % 2 == 0 for text in texts])
    assert 0 < right_B.sum() < len(right_B)
    with torch.no_grad():
        reference_BTV = log_probabilities(load_model(bench.base).double(), batch)
        anchor_BT = torch.where(
            right_B[:, None],
            tilted(reference_BTV, phi_right, batch),
            tilted(reference_BTV, 0.4, batch),
        )
        plain_BT = of_tokens(reference_BTV, batch)
        anchor_BT = plain_BT + (anchor_BT - plain_BT).exp().clamp(1e-3, 30).log()
    logps_BT = of_tokens(log_probabilities(double, batch), batch)
    u_BT = (anchor_BT - logps_BT).exp()
    ratio_BT = (logps_BT - logps_BT.detach()).exp()
    term_BT = -ratio_BT * batch["advantages"][:, None] + BETA * (u_BT - u_BT.log() - 1)
    expected = mean_of(term_BT, batch)
    expected.backward()
    assert loss == pytest.approx(expected.item(), abs=1e-5, rel=1e-5)
    assert_same_gradients(double, gradients_of(trainer.model), least=1e-9)


@pytest.mark.parametrize(
    ("reference", "estimator"), [("initial", "k3"), ("pre-sft", "k3"), ("initial", "head")]
)
def test_an_adapters_reference_is_tilted_or_has_the_head(bench, configure, reference, estimator):
    rapo = {"guide": {"name": "rapo", "phi_right": 0.0, "phi_wrong": 0.4}}
    head = {"estimator": "head", "head_tokens": HEAD} if estimator == "head" else {}
    config = configure(
        rollout={"temperature": TEMPERATURE},
        anchor={"reference": reference, **head},
        model={"kind": "pretrained", "tuning": "lora", "lora": {"dropout": 0.0}},
        **({} if head else rapo),
    )
    policy = adapted(bench, config)
    start = copy.deepcopy(policy).double()  # before TRL gives it another forward
    trainer = bench.trainer(config, model=policy, reference=None)
    trainer.model.train()
    batch = generated(trainer)
    with torch.no_grad(), start.disable_adapter() if reference == "pre-sft" else nullcontext():
        logps_BTV = log_probabilities(start, batch)
    mask_BT = batch["completion_mask"].bool()
    if head:
        found, expected = batch["head_reference_BTH"], logps_BTV.topk(HEAD, dim=-1).values
    else:
        found, expected = batch["tilted_wrong_BT"], tilted(logps_BTV, 0.4, batch)
        uniform = -math.log(logps_BTV.shape[-1])  # over the vocabulary
        uniform_T = torch.full((int(mask_BT.sum()),), uniform)
        torch.testing.assert_close(batch["tilted_right_BT"][mask_BT], uniform_T, atol=1e-3, rtol=0)
    # an adapter of random weights amplifies a unit's rounding some thousandfold at a few tokens
    torch.testing.assert_close(
        found[mask_BT].double(), expected[mask_BT], atol=5e-3 if head else 1e-3, rtol=0
    )


def margin(logits_XV, chosen_X):
    """How far the chosen token lies below the likeliest one, in nats."""
    return logits_XV.max(dim=1).values - logits_XV.gather(1, chosen_X[:, None])[:, 0]


class Margins(Guide):
    """A guide with signals of its own, which it notes."""

    needs = frozenset({"policy_margin_BT", "reference_margin_BT"})
    own_signals = {  # noqa: RUF012
        "policy_margin_BT": TokenSignal("policy", "the policy's margin", margin),
        "reference_margin_BT": TokenSignal("reference", "the reference's margin", margin),
    }
    seen: dict[str, Any] = {}  # noqa: RUF012

    def q(self, signals, step):
        self.seen.update({name: getattr(signals, name) for name in self.needs})
        return torch.ones_like(signals.logps_BT)


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_signals_of_a_guides_own_follow_from_logits_of_policy_and_reference(
    bench, configure, tuning
):
    config = configure(
        rollout={"temperature": TEMPERATURE, "min_p": 0.0},
        rl={"loss": "grpo", "micro_batch": 4},
        model={"kind": "pretrained", "tuning": tuning, "lora": {"dropout": 0.0}},
    )
    policy = moved(bench) if tuning == "full" else adapted(bench, config)
    plain = {"policy": copy.deepcopy(policy).double()}  # before TRL gives it another forward
    trainer = bench.trainer(config, model=policy)
    trainer.guide = guide = Margins(seen={})
    assert guide.defect() is None
    trainer.state.global_step = trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = generated(trainer)
    if tuning == "full":
        plain["reference"] = load_model(bench.base).double()
    else:  # the adapter "ref" is the policy as it starts
        plain["reference"] = plain["policy"]
    trainer._compute_loss(trainer.model, batch)
    mask_BT = batch["completion_mask"].bool()
    for name, model in plain.items():
        with torch.no_grad():
            logps_BTV = log_probabilities(model, batch)
        expected_BT = logps_BTV.max(dim=-1).values - of_tokens(logps_BTV, batch)
        found_BT = guide.seen[f"{name}_margin_BT"]
        assert expected_BT[mask_BT].max() > 0.5
        torch.testing.assert_close(
            found_BT[mask_BT].double(), expected_BT[mask_BT], atol=2e-3, rtol=0
        )
    assert not any(values_BT.requires_grad for values_BT in guide.seen.values())


class Knowing(Guide):
    """Reads all that is known of rows, and notes it."""

    needs = frozenset({"right_B", "rewards_B", "group_right_B", "problem_ids_B", "token_ids_BT"})
    seen: list[Any] = []  # noqa: RUF012

    def q(self, signals, step):
        columns = (signals.right_B, signals.rewards_B, signals.group_right_B)
        rows = zip(
            *(values.tolist() for values in columns),
            signals.problem_ids_B,
            signals.token_ids_BT.tolist(),
            signals.mask_BT.tolist(),
            signals.row_ids_B.tolist() if signals.row_ids_B is not None else (),
            strict=True,
        )
        self.seen.extend((step, *row) for row in rows)
        return torch.ones_like(signals.logps_BT)


@pytest.mark.parametrize(
    "rl",
    [{"micro_batch": 4}, {"algo": "dars", "most_rollouts": 10, "micro_batch": 4}],
    ids=["shuffled", "dars"],
)
def test_rows_know_their_grade_group_and_problem(bench, configure, monkeypatch, rl):
    guide, plain = Knowing(seen=[]), GuidedGRPOTrainer.__init__

    def knowing(self, *, guide, **named):
        plain(self, guide=noted, **named)

    noted = guide
    monkeypatch.setattr(GuidedGRPOTrainer, "__init__", knowing)
    bench.records(configure(rl={"steps": 2, "loss": "dr_grpo", **rl}))
    ids = {problem.id for _, problem in PROMPTS}
    first = {}
    rows = [row for row in guide.seen if sum(row[6])]
    for step, right, reward, _, problem, tokens, mask, number in rows:
        kept = [token for token, inside in zip(tokens, mask, strict=True) if inside]
        text = bench.tokenizer.decode(kept, skip_special_tokens=True)
        assert right == (bool(text) and ord(text[0]) % 2 == 0)
        assert reward == float(right)
        assert problem in ids
        if number < 16:  # four prompts with four completions, sampled first
            first.setdefault((step, problem), []).append(right)
    groups = 0
    for step, _, _, share, problem, *_ in rows:
        group = first.get((step, problem), [])
        if len(group) == 4:
            assert share == pytest.approx(sum(group) / 4, abs=1e-6)
            groups += 1
    assert groups >= 16
    if rl.get("algo") == "dars":
        assert any(row[7] >= 16 for row in rows)


HEAD = 5
WITH_HEAD = {"beta": BETA, "estimator": "head", "head_tokens": HEAD}
GUIDES = {
    "none": NoGuide(),
    "branch": BranchGuide(tau=0.5, rho=0.4),
    "token": TokenGuide(sigma=(0.0, 0.0)),
}


def w_of(surprisal_BTV, own_BT, mask_BT):
    """Return minmax-normalised surprisals of all tokens, a row at a time."""
    rows = []
    for surprisal_TV, own_T, mask_T in zip(surprisal_BTV, own_BT, mask_BT, strict=True):
        low, high = (own_T[mask_T.bool()].quantile(share) for share in (0.05, 0.95))
        rows.append((surprisal_TV.clamp(low, high) - low) / (high - low))
    return torch.stack(rows)


@pytest.mark.parametrize("old", [False, True], ids=["on-policy", "off-policy"])
@pytest.mark.parametrize("guide", GUIDES)
def test_exact_head_loss_and_gradient_equal_the_formulas_in_double_precision(
    bench, configure, guide, old
):
    settings = GUIDES[guide].model_dump()
    trainer, batch, _, double = stepped(bench, configure, old=old, guide=settings, anchor=WITH_HEAD)
    mask_BT, ids_BT = batch["completion_mask"], batch["completion_ids"]
    with torch.no_grad():
        reference_BTV = log_probabilities(load_model(bench.base).double(), batch)
        head_BTH = reference_BTV.topk(HEAD, dim=-1).indices
        detached_BTV = log_probabilities(double, batch)
        q_BTV = torch.ones_like(detached_BTV)
        if guide == "branch":
            entropy_BT = -(detached_BTV.exp() * detached_BTV).sum(dim=-1)
            q_BTV = q_BTV * (1 + 0.4 * (entropy_BT - 0.5).clamp(min=0))[..., None]
        if guide == "token":
            own_BT = -of_tokens(detached_BTV, batch)
            alpha = trainer.guide.annealed(1, (0.3, 0.1))
            q_BTV = 1 + alpha * w_of(-detached_BTV, own_BT, mask_BT)
        anchor_BTV = reference_BTV + q_BTV.clamp(0.6, 1.4).log()
    logps_BTV = log_probabilities(double, batch)
    logps_BT, anchor_BT = of_tokens(logps_BTV, batch), of_tokens(anchor_BTV, batch)
    old_BT = batch["old_per_token_logps"].double() if old else logps_BT.detach()
    ratio_BT = (logps_BT - old_BT).exp()
    per_token_BTV = logps_BTV.exp() * (logps_BTV - anchor_BTV)
    kl_BT = per_token_BTV.gather(2, head_BTH).sum(dim=-1)
    in_head_BT = (head_BTH == ids_BT[..., None]).any(dim=-1)
    assert 0 < in_head_BT[mask_BT.bool()].double().mean() < 1
    kl_BT = kl_BT + torch.where(in_head_BT, 0, ratio_BT * (logps_BT - anchor_BT))
    advantage_B1 = batch["advantages"][:, None]
    policy_BT = -torch.minimum(ratio_BT * advantage_B1, ratio_BT.clamp(0.8, 1.2) * advantage_B1)
    mean_of(policy_BT + BETA * kl_BT, batch).backward()
    assert_same_gradients(double, gradients_of(trainer.model), least=1e-9)
    tokens = trainer.tokens.drain(trainer.accelerator)
    torch.testing.assert_close(tokens["head"], kl_BT.detach()[mask_BT.bool()], atol=1e-5, rtol=1e-5)
    mass_BT = detached_BTV.exp().gather(2, head_BTH).sum(dim=-1)
    torch.testing.assert_close(tokens["head_mass"], mass_BT[mask_BT.bool()], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "rl",
    [{"micro_batch": 4, "iterations": 2}, {"algo": "dars", "most_rollouts": 10}],
    ids=["parts", "dars"],
)
def test_it_trains_and_records_what_it_held(bench, configure, rl):
    records = bench.records(configure(rl={"steps": 4, "loss": "dr_grpo", **rl}, anchor=WITH_HEAD))
    assert all(0 < record["anchor/head_mass"] <= 1 + 1e-6 for record in records)
    assert abs(records[0]["kl/head"]) < 1e-6 < abs(records[-1]["kl/head"])


def test_what_does_not_fit_is_refused(bench, configure, monkeypatch):
    with pytest.raises(ValueError, match="knows it of sampled ones alone"):
        configure(anchor={"estimator": "head"}, guide={"name": "rapo"})
    with pytest.raises(ValueError, match="head_tokens 7 has no effect"):
        configure(anchor={"head_tokens": 7})
    model = moved(bench)
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(TrainingError, match="final_logit_softcapping"):
        prepared(bench, configure, guide={"name": "none"}, anchor=WITH_HEAD, model=model)


class Vocabularies(TorchDispatchMode):
    """Counts at every operation how many numbers live tensors over the vocabulary hold."""

    def __init__(self, entries):
        super().__init__()
        self.entries, self.most = entries, 0
        self._live = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        for tensor in outputs if isinstance(outputs, tuple | list) else (outputs,):
            states = isinstance(tensor, torch.Tensor) and tensor.shape[-1:] == (self.entries,)
            if states and tensor.shape[0] > 16:  # not the head itself, of 16 columns
                storage = tensor.untyped_storage()
                self._live[storage.data_ptr()] = weakref.ref(tensor)
        alive = {place: held() for place, held in self._live.items() if held() is not None}
        self._live = {place: self._live[place] for place in alive}
        self.most = max(self.most, sum(tensor.numel() for tensor in alive.values()))
        return outputs


def test_the_head_is_never_there_as_a_whole(bench):
    """Of 4,000 states' vocabularies no more are there at once than of 1,024."""
    model, entries = load_model(bench.base, trainable=True), len(bench.tokenizer)
    head = HeadReader(HEAD, 0.7, in_float32=False)
    ids = torch.randint(0, entries, (80, 50))
    with Vocabularies(entries) as vocabularies:
        with torch.no_grad(), head.likeliest(model) as passes:
            model.base_model(input_ids=ids)
        ((mine, expected),) = passes
        with head.asked(model, mine) as passes:
            model.base_model(input_ids=ids)
        ((_, logps_BTH),) = passes
        logps_BTH.sum().backward()
    assert torch.equal(logps_BTH.detach(), expected)
    # logits, their softmax, and the gradients of both
    assert 0 < vocabularies.most <= 4 * TILE_STATES * entries <= 1024 * entries
