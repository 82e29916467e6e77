"""Methods that read the initial policy, in the trainer, against plain code in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from scored_batch import assert_same_gradients, log_chances, rows_of
from torch import Tensor
from toy_policy import PROMPTS, StepsSeen

from sage_cli.methods.initial_texts import HeldProblems, pseudo_rewards
from sage_cli.models.loading import load_model
from sage_cli.store.sample_parts import Completion, token_ids

GROUP, STEPS, PROMPTS_A_STEP, LIMIT = 4, 3, 4, 8.0
HELD = range(0, 12, 3)
"""Problems of which two initial samples in three are right (by the parity of the first character),
the second one first; of the others one is."""
TEXTS = {True: ("7", "2+2", "4"), False: ("7", "9", "4")}


def initial_samples() -> dict[str, list[Completion]]:
    return {
        problem.id: [
            Completion(problem.id, i, 0, text, 3, "stop")
            for i, text in enumerate(TEXTS[row in HELD])
        ]
        for row, (_, problem) in enumerate(PROMPTS)
    }


def settings(**changed: Any) -> dict[str, Any]:
    return {
        "algo": "dph-rl", "solved": 0.6, "initial_samples": 3, "steps": STEPS,
        "prompts_per_step": PROMPTS_A_STEP, "rollouts_per_prompt": GROUP, "micro_batch": 4,
        "learning_rate": 1e-2, "warmup_ratio": 0.0, "max_grad_norm": 1e9,
    } | changed  # fmt: skip


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "forward": lambda u: u - 1 - u.log(),
    "js": lambda u: u * u.log() - (u + 1) * ((u + 1) / 2).log(),
    "alpha": lambda u: (u**0.7 - 0.7 * u - 0.3) / (0.3 * -0.7),
}


def plain_loss(
    now: Any, start: Any, stored: list[int], rows: Any, reward: list[float], of: tuple[str, float]
) -> tuple[Tensor, list[float]]:
    """The loss a problem at a time, and the divergences of those that are held."""
    kind, weight = of
    terms, found = [], []
    for first in range(0, len(rows), GROUP):
        group, mine = rows[first : first + GROUP], torch.tensor(reward[first : first + GROUP])
        _, problem, prompt, _ = group[0]
        if problem in HELD:
            with torch.no_grad():
                before = log_chances(start, prompt, stored)
            log_u = log_chances(now, prompt, stored) - before
            assert log_u.max() < LIMIT
            value = FORMULAS[kind](log_u.exp()).mean()
            terms.append(weight * value)
            found.append(value.item())
            continue
        advantages = (mine - mine.mean()) / (mine.std() + 1e-4)
        each = [log_chances(now, prompt, completion) for *_, prompt, completion in group]
        ratios = torch.stack([(row - row.detach()).exp().mean() for row in each])
        terms.append(-(advantages * ratios).mean())
    return sum(terms) / len(terms), found


def watched(bench: Any, config: Any, samples: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """Policy, gradients, rows and grades before each step of a training, and its records."""
    trainer = bench.trainer(config, reference_completions=samples)
    seen = StepsSeen(
        trainer, bench.base, lambda: (rows_of(trainer), trainer.rewards_BF[:, 0].tolist())
    ).steps
    records: list[dict[str, Any]] = []
    trainer.writer.on_step = lambda record: records.append(dict(record))
    trainer.train()
    return seen, records


def agree(model: Any, gradients: Any, record: dict[str, Any], loss: Tensor) -> bool:
    """Compare a step with the formulas' loss; True if the step teaches."""
    loss.backward()
    assert record["loss"] == pytest.approx(loss.item(), abs=1e-5, rel=1e-5)
    assert_same_gradients(model, gradients, least=1e-7)  # a step may have no group that teaches
    return model.lm_head.weight.grad.norm().item() > 0.01


@pytest.mark.parametrize(
    ("kind", "weight"), [("forward", 0.7), ("js", 0.7), ("alpha", 0.7), ("js", None), ("js", 0.0)]
)
def test_every_step_has_the_loss_and_gradient_of_the_formulas(
    bench: Any, configure: Any, kind: str, weight: float | None
):
    own = {"divergence": kind, "weight": weight, "log_ratio_limit": LIMIT}
    rl = settings(**own, **({"alpha": 0.3} if kind == "alpha" else {}))
    config = configure(rl=rl, anchor={"kl": "none"})
    seen, records = watched(bench, config, initial_samples())
    stored = token_ids(bench.tokenizer, initial_samples()["2x2"][1], None)
    start, of = load_model(bench.base).double(), (kind, 0.125 if weight is None else weight)
    held, taught, pulls = 0, 0, []
    for (model, gradients, rows, reward), record in zip(seen, records, strict=True):
        model.zero_grad()
        loss, divergences = plain_loss(model, start, stored, rows, reward, of)
        taught += agree(model, gradients, record, loss)
        assert record["groups/held"] == len(divergences)
        held += len(divergences)
        if weight == 0 or not divergences:
            assert "divergence" not in record
        else:
            mean = sum(divergences) / len(divergences)
            assert record["divergence"] == pytest.approx(mean, abs=1e-5, rel=1e-5)
            pulls.append(mean)
    assert 0 < held < STEPS * PROMPTS_A_STEP
    assert taught >= 2
    assert weight == 0 or max(pulls) > 0.01  # the policy has left its start


def test_without_weight_no_stored_completion_goes_through_the_model_again(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(HeldProblems, "values", None)  # can't be called
    config = configure(rl=settings(weight=0.0), anchor={"kl": "none"})
    records = bench.run(config, reference=None, reference_completions=initial_samples())
    assert sum(record["groups/held"] for record in records) > 0


def test_micro_batches_do_not_matter(bench: Any, configure: Any):
    """Groups have 4 completions, so with micro-batches of 2 each group is split."""
    of_steps = []
    for micro in (16, 2):
        config = configure(rl=settings(weight=1.0, micro_batch=micro), anchor={"kl": "none"})
        records = bench.run(config, f"of-{micro}", reference_completions=initial_samples())
        of_steps.append([(r["loss"], r["grad_norm"], r.get("divergence", 0.0)) for r in records])
    for whole, split in zip(*of_steps, strict=True):
        assert split == pytest.approx(whole, rel=2e-4, abs=2e-5)
    assert any(divergence > 0.01 for *_, divergence in of_steps[0])


def test_with_no_problem_held_it_is_grpo_to_the_bit(bench: Any, configure: Any):
    wrong = {
        problem.id: [Completion(problem.id, i, 0, "7", 1, "stop") for i in range(3)]
        for _, problem in PROMPTS
    }
    config = configure(rl=settings(), anchor={"kl": "none"})
    bench.run(config, "held", reference=None, reference_completions=wrong)
    plain = {"algo": "grpo", "epsilon_high": 0.28}
    usual = {k: v for k, v in settings().items() if k not in ("solved", "initial_samples")}
    bench.run(configure(rl=usual | plain, anchor={"kl": "none"}), "plain", reference=None)
    first, second = (
        (bench.folder / name / "model/model.safetensors").read_bytes() for name in ("held", "plain")
    )
    assert first == second


def test_rollouts_of_held_problems_teach_nothing(bench: Any, configure: Any):
    config = configure(rl=settings(), anchor={"kl": "none"})
    trainer = bench.trainer(config, reference_completions=initial_samples())
    # two rollouts each of problem 3, which is held, and of 1, which isn't
    batch = {
        "prompt_row_B": torch.tensor([3, 1, 1, 3]),
        "advantages": torch.tensor([0.7, 0.7, -0.7, -0.7]),
    }
    found = trainer.hooks.advantages(trainer, batch, torch.zeros(2, 2))
    assert found.tolist() == pytest.approx([0, 0.7, -0.7, 0])
    assert trainer.hooks.record["groups/held"] == 1


def test_updates_of_one_generation_and_a_guide_beside_it(bench: Any, configure: Any):
    rl = settings(steps=4, iterations=2, weight=1.0)
    records = bench.run(
        configure(rl=rl, guide={"name": "branch", "tau": 0.5}),
        reference_completions=initial_samples(),
    )
    assert all(math.isfinite(record["loss"]) for record in records)
    assert all("kl/shaped" in record for record in records)


SELDOM = {
    problem.id: [
        Completion(problem.id, i, 0, text, 3, "stop")
        for i, text in enumerate(
            # distinct right ones at 2 and 5, a quarter of eight; all right; none
            [("7", "9", "4", "7", "5", "2+2", "3", "1"), ("2", "4") * 4, ("7",) * 8][row % 3]
        )
    ]
    for row, (_, problem) in enumerate(PROMPTS)
}
MARGIN = 0.01


def policy_term(now: Any, rows: Any, advantages: list[float], *, tokens: int | None = None) -> Any:
    """Minus advantage times ratio, a mean over each row's tokens (or over so many), and rows."""
    each = [log_chances(now, prompt, completion) for *_, prompt, completion in rows]
    ratios = [(row - row.detach()).exp().sum() / (tokens or len(row)) for row in each]
    return -sum(a * ratio for a, ratio in zip(advantages, ratios, strict=True)) / len(rows)


def test_a_floor_pulls_up_the_right_texts_that_are_below_it_and_no_others(
    bench: Any, configure: Any
):
    rl = settings(algo="support-floor", initial_samples=8, margin_nats=MARGIN, weight=2.0, steps=4)
    del rl["solved"]
    seen, records = watched(bench, configure(rl=rl, anchor={"kl": "none"}), SELDOM)
    samples = SELDOM[PROMPTS[0][1].id]
    texts = [token_ids(bench.tokenizer, samples[n], None) for n in (2, 5)]
    start, below, above = load_model(bench.base).double(), 0, 0
    for (model, gradients, rows, reward), record in zip(seen, records, strict=True):
        model.zero_grad()
        advantages, hinges = [], []
        for first in range(0, len(rows), GROUP):
            mine = torch.tensor(reward[first : first + GROUP], dtype=torch.float64)
            advantages += ((mine - mine.mean()) / (mine.std() + 1e-4)).tolist()
            _, problem, prompt, _ = rows[first]
            if problem % 3:
                continue
            for text in texts:
                with torch.no_grad():
                    floor = log_chances(start, prompt, text).sum() - MARGIN
                hinge = torch.clamp(floor - log_chances(model, prompt, text).sum(), min=0)
                below, above = below + (hinge > 0).item(), above + (hinge == 0).item()
                hinges.append(hinge / len(text))
        floor_term = sum(hinges) / len(texts) / PROMPTS_A_STEP
        agree(model, gradients, record, policy_term(model, rows, advantages) + 2.0 * floor_term)
        if hinges:
            mean = sum(hinge.item() for hinge in hinges) / len(hinges)
            assert record["floor"] == pytest.approx(mean, abs=1e-5)
    assert below > 1
    assert above > 2


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.9])
def test_alpha_dpg_has_the_gradient_of_its_pseudo_rewards(bench: Any, configure: Any, alpha: float):
    rl = settings(algo="alpha-dpg", initial_samples=8, alpha=alpha, pseudo_reward_limit=6.0)
    del rl["solved"]
    seen, records = watched(bench, configure(rl=rl, anchor={"kl": "none"}), SELDOM)
    start, limited, taught = load_model(bench.base).double(), 0, 0
    for (model, gradients, rows, reward), record in zip(seen, records, strict=True):
        model.zero_grad()
        paid = []
        for right, (_, problem, prompt, completion) in zip(reward, rows, strict=True):
            with torch.no_grad():
                now, then = (
                    log_chances(of, prompt, completion).sum().exp().item() for of in (model, start)
                )
            # 2, 8 and none of 8 are right
            target = right * then / (0.25, 1.0, 1e-4)[problem % 3]
            paid.append(min((target / now) ** (1 - alpha) - 1, 6.0))
            limited += paid[-1] == 6.0
        advantages = []
        for first in range(0, len(rows), GROUP):
            group = paid[first : first + GROUP]
            advantages += [r - (sum(group) - r) / (GROUP - 1) for r in group]
        loss = policy_term(model, rows, advantages, tokens=12)
        taught += agree(model, gradients, record, loss)
        assert record["anchor/rows"] == 0
    assert taught >= 2
    assert limited > 0 or alpha == 0.9


def test_pseudo_rewards_end_at_the_filtered_reference_or_at_a_part_of_it():
    """Enumerated: the reference is (.4 .3 .2 .1), and the first three are right."""
    reference = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    right, whole = torch.tensor([1.0, 1, 1, 0]), reference * torch.tensor([1, 1, 1, 0]) / 0.9
    part = torch.tensor([0.4 / 0.7, 0.3 / 0.7, 0, 0], dtype=torch.float64)
    for alpha, (policy, ends) in product(
        (0.0, 0.25, 0.9), ((whole, True), (part, True), (reference, False), (right / 3, False))
    ):
        log_t = policy.clamp(min=1e-300).log() - reference.log() + torch.tensor(0.9).log()
        paid = pseudo_rewards(right[None], log_t[None], alpha, 1e9)[0]
        # the gradient in the logits is pi (R - E R)
        slopes = policy * (paid - (policy * paid).sum())
        assert bool(slopes.abs().max() < 1e-7) is ends
    # what the uniform policy finds too seldom is raised: 4/9 and no less than 1/3
    assert slopes[0] > 0 > slopes[2]
