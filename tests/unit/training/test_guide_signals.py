"""What guides ask for, in real trainings: the tilted reference, grades, rewards, groups."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from scored_batch import TEMPERATURE, generated, log_probabilities, moved, of_tokens, prepared
from torch import Tensor
from toy_policy import PROMPTS, adapted, timeless

from sage_cli.guides import Guide, RapoGuide, Signals
from sage_cli.guides.guide import Guide as Base
from sage_cli.models.load import load_model

BETA = 0.3


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
    for own, other in zip(trainer.model.parameters(), double.parameters(), strict=True):
        scale = other.grad.abs().max().item()
        torch.testing.assert_close(own.grad.double(), other.grad, atol=1e-5 * scale + 1e-9, rtol=0)


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
    from sage_cli.training.anchored_trainer import AnchoredTrainer

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
