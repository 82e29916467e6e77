"""NudgeRL through the trainer, against code of its own in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_policy import PROMPTS, StepsSeen

GROUP, PROMPTS_A_STEP = 8, 4
PLAIN_PROMPT = {"format": "plain", "system": None}
FOLLOWED = {"line_end": ";", "hint": "{question} {hint}"}
CONTINUED = {"line_end": ";", "hint": "{question}#{hint}", "continued": True}
Row = tuple[int, int, list[int], list[int]]


def settings(**changed: Any) -> dict[str, Any]:
    return {
        "algo": "nudge", "steps": 3, "prompts_per_step": PROMPTS_A_STEP,
        "rollouts_per_prompt": GROUP, "micro_batch": 8, "learning_rate": 1e-2,
        "warmup_ratio": 0.0, "max_grad_norm": 1e9, **FOLLOWED,
    } | changed  # fmt: skip


def rows_of(trainer: Any) -> list[Row]:
    """Number, problem, prompt and completion of each row of the generation batch, in order."""
    rows = []
    for batch in trainer._buffered_inputs:
        for i, number in enumerate(batch["row_ids_B"].tolist()):
            prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()].tolist()
            completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist()
            rows.append((number, int(batch["prompt_row_B"][i]), prompt, completion))
    return sorted(rows)


def log_chances(model: Any, prompt: list[int], answer: list[int]) -> Tensor:
    """log pi of each token of an answer, without padding."""
    logits_TV = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return logits_TV.log_softmax(-1)[range(len(answer)), answer]


def advantages(rows: list[Row], rewards: list[float], plain: list[list[int]]) -> list[float]:
    """z-scores of a group, whose contexts are told by their prompts."""
    mean, raw = sum(rewards) / GROUP, []
    for (_, problem, prompt, _), reward in zip(rows, rewards, strict=True):
        if prompt == plain[problem]:
            raw.append(reward - mean)
            continue
        same = [r for (*_, other, _), r in zip(rows, rewards, strict=True) if other == prompt]
        own = sum(same) / len(same)
        raw.append((reward - own) + 1.1 * (own - mean))
    middle = sum(raw) / GROUP
    deviation = (sum((one - middle) ** 2 for one in raw) / GROUP) ** 0.5
    return [(one - middle) / (deviation + 1e-5) for one in raw]


def plain_loss(
    model: Any, rows: list[Row], rewards: list[float], plain: list[list[int]], weight: float,
    continued: bool,
) -> Tensor:  # fmt: skip
    """GRPO's loss under the prompts that were asked, and the distillation under plain ones."""
    policy, distilled = [], []
    for first in range(0, len(rows), GROUP):
        group = rows[first : first + GROUP]
        each = advantages(group, rewards[first : first + GROUP], plain)
        for (_, problem, prompt, completion), advantage in zip(group, each, strict=True):
            logps_T = log_chances(model, prompt, completion)
            policy.append(-advantage * (logps_T - logps_T.detach()).exp().mean())
            begun = prompt[len(plain[problem]) :] if continued else []
            whole_T = log_chances(model, plain[problem], begun + completion)
            distilled.append(-advantage * whole_T.mean())
    return (sum(policy) + weight * sum(distilled)) / len(rows)


@pytest.mark.parametrize(
    ("own", "weight"), [(FOLLOWED, 0.1), (CONTINUED, 0.7), (FOLLOWED, 0.0), (CONTINUED, 0.0)]
)
def test_every_step_has_the_loss_and_gradient_of_the_formulas(
    bench: Any, configure: Any, own: dict[str, Any], weight: float
):
    rl = settings(**own, distillation=weight)
    trainer = bench.trainer(configure(rl=rl, anchor={"kl": "none"}, prompt=PLAIN_PROMPT))
    seen = StepsSeen(
        trainer, bench.base, lambda: (rows_of(trainer), trainer.rewards_BF[:, 0].tolist())
    ).steps
    records: list[dict[str, Any]] = []
    trainer.writer.on_step = lambda record: records.append(dict(record))
    trainer.train()
    plain = bench.tokenizer([text for text, _ in PROMPTS])["input_ids"]
    asked = set()
    for (model, gradients, rows, rewards), record in zip(seen, records, strict=True):
        model.zero_grad()
        loss = plain_loss(model, rows, rewards, plain, weight, "continued" in own)
        loss.backward()
        assert record["loss"] == pytest.approx(loss.item(), abs=1e-5, rel=1e-5)
        for name, parameter in model.named_parameters():
            off = (gradients[name] - parameter.grad).norm() / parameter.grad.norm()
            assert off < 1e-5, name
        nudged = [prompt != plain[problem] for _, problem, prompt, _ in rows]
        assert record["nudge/share"] == pytest.approx(sum(nudged) / len(nudged))
        with_context = [r for r, yes in zip(rewards, nudged, strict=True) if yes]
        assert record["nudge/reward"] == pytest.approx(sum(with_context) / len(with_context))
        asked |= {(problem, bench.tokenizer.decode(prompt)) for _, problem, prompt, _ in rows}
    # one line and two of `2;3;6`, and the plain question
    texts = {text for problem, text in asked if problem == asked_problem(asked)}
    assert len(texts) == 3


def asked_problem(asked: set[tuple[int, str]]) -> int:
    """The problem that was asked in most ways."""
    problems = [problem for problem, _ in asked]
    return max(problems, key=problems.count)


def test_without_contexts_and_distillation_no_row_is_asked_otherwise(bench: Any, configure: Any):
    rl = settings(dropout=1.0, distillation=0.0, steps=2)
    records = bench.run(configure(rl=rl, anchor={"kl": "none"}, prompt=PLAIN_PROMPT))
    assert [record["nudge/share"] for record in records] == [0, 0]
    assert all("nudge/reward" not in record for record in records)


def test_a_problem_without_a_solution_is_asked_plainly(bench: Any, configure: Any):
    bare = [(text, replace(problem, working=None)) for text, problem in PROMPTS]
    config = configure(rl=settings(dropout=0.0, steps=2), prompt=PLAIN_PROMPT)
    assert {record["nudge/share"] for record in bench.run(config, prompts=bare)} == {0.0}


@pytest.mark.parametrize("own", [FOLLOWED, CONTINUED])
def test_micro_batches_change_nothing_but_rounding(bench: Any, configure: Any, own: Any):
    guide = {"name": "branch", "tau": 0.5, "rho": 3.0}
    found = [
        bench.run(
            configure(rl=settings(**own, micro_batch=size), guide=guide, prompt=PLAIN_PROMPT),
            f"of-{size}",
        )
        for size in (4, 32)
    ]
    for few, many in zip(*found, strict=True):
        assert few["loss"] == pytest.approx(many["loss"], abs=1e-5)
        assert few["grad_norm"] == pytest.approx(many["grad_norm"], rel=1e-4)
        assert few["kl/shaped"] == pytest.approx(many["kl/shaped"], abs=1e-5)


def test_a_flat_guide_changes_nothing_to_the_bit(bench: Any, configure: Any):
    branch = {"name": "branch", "tau": 0.5}
    bench.run(configure(rl=settings(), prompt=PLAIN_PROMPT), "plain")
    bench.run(configure(rl=settings(), guide=branch | {"rho": 0.0}, prompt=PLAIN_PROMPT), "flat")
    first, second = (
        (bench.folder / name / "model/model.safetensors").read_bytes() for name in ("plain", "flat")
    )
    assert first == second
