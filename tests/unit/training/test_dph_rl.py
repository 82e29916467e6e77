"""DPH-RL through the trainer, against code of its own in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_policy import PROMPTS, StepsSeen

from sage_cli.methods.dph_rl import HeldProblems
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


def rows_of(trainer: Any) -> list[tuple[int, int, list[int], list[int]]]:
    """Number, problem, prompt and completion of each row of the generation batch, in order."""
    rows = []
    for batch in trainer._buffered_inputs:
        for i, number in enumerate(batch["row_ids_B"].tolist()):
            prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()].tolist()
            completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist()
            rows.append((number, int(batch["prompt_row_B"][i]), prompt, completion))
    return sorted(rows)


def log_chances(model: Any, prompt: list[int], completion: list[int]) -> Tensor:
    """log pi of each token of a row without padding."""
    logits_TV = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    return logits_TV.log_softmax(-1)[range(len(completion)), completion]


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


@pytest.mark.parametrize(
    ("kind", "weight"), [("forward", 0.7), ("js", 0.7), ("alpha", 0.7), ("js", None), ("js", 0.0)]
)
def test_every_step_has_the_loss_and_gradient_of_the_formulas(
    bench: Any, configure: Any, kind: str, weight: float | None
):
    own = {"divergence": kind, "weight": weight, "log_ratio_limit": LIMIT}
    rl = settings(**own, **({"alpha": 0.3} if kind == "alpha" else {}))
    config = configure(rl=rl, anchor={"kl": "none"})
    trainer = bench.trainer(config, reference_completions=initial_samples())
    seen = StepsSeen(
        trainer, bench.base, lambda: (rows_of(trainer), trainer.rewards_BF[:, 0].tolist())
    ).steps
    records: list[dict[str, Any]] = []
    trainer.writer.on_step = lambda record: records.append(dict(record))
    trainer.train()
    stored = token_ids(bench.tokenizer, initial_samples()["2x2"][1], None)
    start, of = load_model(bench.base).double(), (kind, 0.125 if weight is None else weight)
    held, taught, pulls = 0, 0, []
    for (model, gradients, rows, reward), record in zip(seen, records, strict=True):
        model.zero_grad()
        loss, divergences = plain_loss(model, start, stored, rows, reward, of)
        loss.backward()
        assert record["loss"] == pytest.approx(loss.item(), abs=1e-5, rel=1e-5)
        for name, parameter in model.named_parameters():
            off, of_all = (gradients[name] - parameter.grad).norm(), parameter.grad.norm()
            assert off <= 1e-5 * of_all + 1e-7, name  # a step may have no group that teaches
        taught += model.lm_head.weight.grad.norm().item() > 0.01
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
    monkeypatch.setattr(HeldProblems, "_divergences", None)  # can't be called
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
