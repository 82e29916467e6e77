"""What guides ask for, in real trainings: the tilted reference, grades, rewards, groups."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import pytest
import torch
from scored_batch import TEMPERATURE, generated, log_probabilities, moved, of_tokens, prepared
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from toy_policy import PROMPTS, adapted, timeless

from sage_cli.errors import TrainingError
from sage_cli.guides import BranchGuide, Guide, NoGuide, RapoGuide, Signals, TokenGuide
from sage_cli.guides.guide import Guide as Base
from sage_cli.models.loading import load_model
from sage_cli.training.anchor_signals import TILE_STATES, ExactHead
from sage_cli.training.anchored_trainer import AnchoredTrainer

BETA = 0.3


def assert_close_gradients(model: Any, double: Any) -> None:
    for own, other in zip(model.parameters(), double.parameters(), strict=True):
        scale = other.grad.abs().max().item()
        torch.testing.assert_close(own.grad.double(), other.grad, atol=1e-5 * scale + 1e-9, rtol=0)


def with_rapo(bench: Any, configure: Any, guide: dict[str, Any], **further: Any) -> Any:
    anchor = {"beta": BETA}
    return prepared(bench, configure, guide={"name": "rapo", **guide}, anchor=anchor, **further)


def tilted(logps_BTV: Tensor, phi: float, batch: dict[str, Any]) -> Tensor:
    """Return phi l - log sum_v P_v^phi."""
    return phi * of_tokens(logps_BTV, batch) - (phi * logps_BTV).logsumexp(dim=-1)


@pytest.mark.parametrize("phi_right", [1.0, 0.8])
def test_loss_and_gradient_equal_the_formulas_in_double_precision(
    bench: Any, configure: Any, phi_right: float
):
    policy = moved(bench)
    double = copy.deepcopy(policy).double()
    guide = {"phi_right": phi_right, "phi_wrong": 0.4, "q_max": 30.0}
    trainer = with_rapo(bench, configure, guide, model=policy)
    batch = generated(trainer)
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()

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
    mask_BT = batch["completion_mask"]
    expected = ((term_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)).mean()
    expected = expected / trainer.current_gradient_accumulation_steps
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5, rel=1e-5)
    assert_close_gradients(trainer.model, double)


@pytest.mark.parametrize("reference", ["initial", "base"])
def test_an_adapters_reference_is_tilted(bench: Any, configure: Any, reference: str):
    section = {"kind": "pretrained", "tuning": "lora", "lora": {"dropout": 0.0}}
    config = configure(
        guide={"name": "rapo", "phi_right": 0.0, "phi_wrong": 0.4},
        rollout={"temperature": TEMPERATURE},
        anchor={"reference": reference},
        model=section,
    )
    policy = adapted(bench, config)
    start = copy.deepcopy(policy).double()  # before TRL gives it another forward
    trainer = bench.trainer(config, model=policy, reference=None)
    trainer.model.train()
    batch = generated(trainer)
    with torch.no_grad():
        if reference == "base":
            with start.disable_adapter():
                logps_BTV = log_probabilities(start, batch)
        else:
            logps_BTV = log_probabilities(start, batch)
    mask_BT = batch["completion_mask"].bool()
    expected_BT = tilted(logps_BTV, 0.4, batch)[mask_BT]
    torch.testing.assert_close(
        batch["tilted_0.4_BT"][mask_BT].double(), expected_BT, atol=1e-4, rtol=0
    )
    # uniform over the vocabulary
    uniform = -torch.tensor(float(logps_BTV.shape[-1])).log()
    assert batch["tilted_0_BT"][mask_BT].tolist() == pytest.approx(
        [uniform.item()] * int(mask_BT.sum()), abs=1e-3
    )


class Knowing(Guide):
    """Reads all that is known of rows, and notes it."""

    needs = frozenset({"right_B", "rewards_B", "group_right_B", "problem_ids_B", "token_ids_BT"})
    seen: list[Any] = []  # noqa: RUF012

    def q(self, signals: Signals, step: int) -> Tensor:
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
    "rl", [{"micro_batch": 4}, {"algo": "dars", "most_rollouts": 10, "micro_batch": 4}],
    ids=["shuffled", "dars"],
)  # fmt: skip
def test_rows_know_their_grade_group_and_problem(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, rl: dict[str, Any]
):
    guide, plain = Knowing(seen=[]), AnchoredTrainer.__init__

    def knowing(self: Any, *, guide: Base, **named: Any) -> None:
        plain(self, guide=noted, **named)

    noted = guide
    monkeypatch.setattr(AnchoredTrainer, "__init__", knowing)
    bench.run(configure(rl={"steps": 2, "loss": "dr_grpo", **rl}))
    ids = {problem.id for _, problem in PROMPTS}
    first: dict[tuple[int, str], list[bool]] = {}
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


def test_rapo_with_exponents_of_1_trains_as_without_a_guide(bench: Any, configure: Any):
    plain = bench.run(configure(), "plain")
    flat = {"name": "rapo", "phi_wrong": 1.0}
    assert timeless(bench.run(configure(guide=flat), "flat"), "guide/") == timeless(plain, "guide/")
    steep = bench.run(configure(guide={"name": "rapo"}), "steep")
    assert timeless(steep, "guide/") != timeless(plain, "guide/")
    assert RapoGuide().q_max == 100


HEAD = 5
GUIDES = {
    "none": NoGuide(),
    "branch": BranchGuide(tau=0.5, rho=0.4),
    "token": TokenGuide(sigma=(0.0, 0.0)),
}


def with_head(bench: Any, configure: Any, guide: str, **further: Any) -> Any:
    anchor = {"beta": BETA, "estimator": "head", "head_tokens": HEAD}
    settings = GUIDES[guide].model_dump()
    return prepared(bench, configure, guide=settings, anchor=anchor, **further)


def w_of(surprisal_BTV: Any, own_BT: Any, mask_BT: Any) -> Any:
    """Return minmax-normalised surprisals of all tokens, a row at a time."""
    rows = []
    for surprisal_TV, own_T, mask_T in zip(surprisal_BTV, own_BT, mask_BT, strict=True):
        low, high = (own_T[mask_T.bool()].quantile(share) for share in (0.05, 0.95))
        rows.append((surprisal_TV.clamp(low, high) - low) / (high - low))
    return torch.stack(rows)


@pytest.mark.parametrize("old", [False, True], ids=["on-policy", "off-policy"])
@pytest.mark.parametrize("guide", GUIDES)
def test_exact_head_loss_and_gradient_equal_the_formulas_in_double_precision(
    bench: Any, configure: Any, guide: str, old: bool
):
    policy = moved(bench)
    double = copy.deepcopy(policy).double()
    trainer = with_head(bench, configure, guide, model=policy)
    batch = generated(trainer)
    if old:
        noise = 0.2 * torch.rand(batch["ref_per_token_logps"].shape)
        batch["old_per_token_logps"] = batch["ref_per_token_logps"] + noise
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()

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
    term_BT = policy_BT + BETA * kl_BT
    expected = ((term_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)).mean()
    expected.backward()
    assert_close_gradients(trainer.model, double)
    tokens = trainer.tokens.drain(trainer.accelerator)
    torch.testing.assert_close(tokens["head"], kl_BT.detach()[mask_BT.bool()], atol=1e-5, rtol=1e-5)
    mass_BT = detached_BTV.exp().gather(2, head_BTH).sum(dim=-1)
    torch.testing.assert_close(tokens["head_mass"], mass_BT[mask_BT.bool()], atol=1e-5, rtol=0)


def test_an_adapters_reference_has_the_head(bench: Any, configure: Any):
    section = {"kind": "pretrained", "tuning": "lora", "lora": {"dropout": 0.0}}
    config = configure(
        rollout={"temperature": TEMPERATURE, "min_p": 0.0},
        anchor={"estimator": "head", "head_tokens": HEAD},
        model=section,
    )
    policy = adapted(bench, config)
    start = copy.deepcopy(policy).double()
    trainer = bench.trainer(config, model=policy, reference=None)
    trainer.model.train()
    batch = generated(trainer)
    with torch.no_grad():
        expected_BTH = log_probabilities(start, batch).topk(HEAD, dim=-1).values
    chosen = batch["completion_mask"].bool()
    torch.testing.assert_close(
        batch["head_reference"][chosen].double(), expected_BTH[chosen], atol=1e-3, rtol=0
    )


@pytest.mark.parametrize(
    "rl", [{"micro_batch": 4, "iterations": 2}, {"algo": "dars", "most_rollouts": 10}],
    ids=["parts", "dars"],
)  # fmt: skip
def test_it_trains_and_records_what_it_held(bench: Any, configure: Any, rl: dict[str, Any]):
    anchor = {"beta": BETA, "estimator": "head", "head_tokens": HEAD}
    config = configure(rl={"steps": 4, "loss": "dr_grpo", **rl}, anchor=anchor)
    records = bench.run(config)
    assert all(0 < record["anchor/head_mass"] <= 1 + 1e-6 for record in records)
    assert abs(records[0]["kl/head"]) < 1e-6 < abs(records[-1]["kl/head"])


def test_with_all_tokens_it_is_the_reverse_kl_of_each_state(bench: Any, configure: Any):
    policy = moved(bench)
    trainer = with_head(bench, configure, "none", model=policy)
    trainer.head._tokens = trainer.model.config.vocab_size
    batch = generated(trainer)
    trainer._compute_loss(trainer.model, batch)
    with torch.no_grad():
        logps_BTV = log_probabilities(policy, batch)
        reference_BTV = log_probabilities(load_model(bench.base), batch)
    kl_BT = (logps_BTV.exp() * (logps_BTV - reference_BTV)).sum(dim=-1)
    found_T = trainer.tokens.drain(trainer.accelerator)["head"].to(kl_BT)
    torch.testing.assert_close(found_T, kl_BT[batch["completion_mask"].bool()], atol=1e-5, rtol=0)


def test_what_does_not_fit_is_refused(bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="knows it of sampled ones alone"):
        configure(anchor={"estimator": "head"}, guide={"name": "rapo"})
    with pytest.raises(ValueError, match="head_tokens 7 are those of the estimator head"):
        configure(anchor={"head_tokens": 7})
    model = moved(bench)
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(TrainingError, match="final_logit_softcapping"):
        with_head(bench, configure, "none", model=model)


class Vocabularies(TorchDispatchMode):
    """Counts at every operation how many numbers live tensors over the vocabulary hold."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.entries, self.most = entries, 0
        self._live: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
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


def test_the_head_is_never_there_as_a_whole(bench: Any):
    """Of 4,000 states' vocabularies no more are there at once than of 1,024."""
    model, entries = load_model(bench.base, trainable=True), len(bench.tokenizer)
    head = ExactHead.__new__(ExactHead)
    head._in_float32, head._tokens, head._temperature = False, HEAD, 0.7
    ids = torch.randint(0, entries, (80, 50))
    with Vocabularies(entries) as vocabularies:
        with torch.no_grad(), head.of_reference(model):
            model.base_model(input_ids=ids)
        expected, mine = head.logps_BTH, head.ids_BTH
        with head.of_policy(model, mine):
            model.base_model(input_ids=ids)
        head.logps_BTH.sum().backward()
    assert torch.equal(head.logps_BTH.detach(), expected)
    # logits, their softmax, and the gradients of both
    assert 0 < vocabularies.most <= 4 * TILE_STATES * entries <= 1024 * entries
