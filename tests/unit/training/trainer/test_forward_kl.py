"""Forward KL on the reference's completions: its loss, its turns, its refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy_policy import PROMPTS, reference_completions
from trl import GRPOTrainer

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.store.samples.completion import Completion
from sage_cli.training.rollouts.order import rows_seen
from sage_cli.training.trainer.forward_kl import ReferenceCompletions


def test_completions_are_taken_in_turn_padded_and_masked():
    completions = ReferenceCompletions([[[1, 2, 3], [4]], [[5, 6]]])
    ids_BT, mask_BT = completions.take(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 2, 9]))
    assert ids_BT.tolist() == [[1, 2, 3], [4, 0, 0], [1, 2, 3], [5, 6, 0]]
    assert mask_BT.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 0]]


def test_finished_completions_end_with_end_of_sequence(tokenizer: Any):
    problems = [problem for _, problem in PROMPTS]
    encoded = ReferenceCompletions.encode(
        problems, reference_completions(), tokenizer, None, range(12)
    )
    finished, cut = encoded.ids[0]  # 2 * 2: "4" and "4x"
    four, x = (tokenizer.convert_tokens_to_ids(c) for c in "4x")
    assert finished.tolist() == [four, tokenizer.eos_token_id]
    assert cut.tolist() == [four, x]


def test_end_of_sequence_is_there_where_it_was_drawn(tokenizer: Any):
    (_, problem), *_ = PROMPTS
    eos, tag = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("</SOLUTION>")
    four = tokenizer.convert_tokens_to_ids("4")

    def encoded(text: str, reason: str, ids: tuple[int, ...] | None) -> list[int]:
        drawn = {problem.id: [Completion(problem.id, 0, 0, text, 3, reason, ids)]}
        made = ReferenceCompletions.encode([problem], drawn, tokenizer, "</SOLUTION>", [0])
        ((tokens,),) = made.ids
        return tokens.tolist()

    # ended by the stop text: the reference drew no end of sequence
    assert encoded("4</SOLUTION>", "stop", (four, tag)) == [four, tag]
    assert encoded("4</SOLUTION>", "stop", None) == [four, tag]
    # ended by drawing it
    assert encoded("4", "stop", (four, eos)) == [four, eos]
    assert encoded("4", "stop", None) == [four, eos]
    # cut off
    assert encoded("4", "length", (four,)) == [four]
    # ids that encoding the text would not give
    assert encoded("44", "stop", (four, four, eos)) == [four, four, eos]


def test_a_reference_that_stops_at_the_tag_teaches_no_token_after_it(bench: Any, configure: Any):
    tag = bench.tokenizer.convert_tokens_to_ids("</SOLUTION>")
    drawn = {
        problem.id: [Completion(problem.id, 0, 0, "</SOLUTION>", 1, "stop", (tag,))]
        for _, problem in PROMPTS
    }
    rl = {"steps": 12, "learning_rate": 0.02, "warmup_ratio": 0.0, "save_every": 12}
    config = configure(anchor={"kl": "forward", "beta": 5.0}, rl=rl)
    records = bench.run(config, reference=None, reference_completions=drawn)
    # the tag alone is learnt: cross-entropy falls to nearly 0, which end-of-sequence after it, a
    # second token, would be part of
    assert records[-1]["kl/forward"] < 0.5 < records[0]["kl/forward"]
    ids_BT, mask_BT = ReferenceCompletions.encode(
        [problem for _, problem in PROMPTS], drawn, bench.tokenizer, "</SOLUTION>", range(12)
    ).take(torch.tensor([0]), torch.tensor([0]))
    assert (ids_BT.tolist(), mask_BT.tolist()) == ([[tag]], [[1]])


@pytest.mark.parametrize(("schedule", "share"), [("constant", 1.0), ("cosine", 0.25)])
def test_loss_and_gradient_by_hand(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, schedule: str, share: float
):
    anchor = {"kl": "forward", "beta": 0.5, "schedule": schedule}
    config = configure(anchor=anchor, rl={"micro_batch": 8, "steps": 6})
    trainer = bench.trainer(config, reference_completions=reference_completions())
    assert trainer.ref_model is None
    trainer.state.global_step = 4  # (1 + cos(4 pi / 6)) / 2 = (1 - 1/2) / 2
    trainer.current_gradient_accumulation_steps = 2
    trainer.model.train()
    policy_BT = torch.tensor([[-1.0, -1.0], [-2.0, -2.0]], requires_grad=True)
    # prompts 0 and 1 (golds "4" and "6"), turns 0 and 1: "4" end, and "6x"
    reference_BT = torch.tensor([[-1.0, -3.0], [-2.0, -6.0]], requires_grad=True)
    answers = iter([(policy_BT, torch.zeros(2, 2), None), (reference_BT, None, None)])
    monkeypatch.setattr(
        GRPOTrainer, "_get_per_token_logps_and_entropies", lambda *a, **k: next(answers)
    )
    ones = torch.ones(2, 2, dtype=torch.long)
    batch = {
        "prompt_ids": ones, "prompt_mask": ones, "completion_ids": ones, "completion_mask": ones,
        "advantages": torch.tensor([1.0, -1.0]), "num_items_in_batch": torch.tensor(4.0),
        "row_ids_B": torch.tensor([0, 5]), "prompt_row_B": torch.tensor([0, 1]),
    }  # fmt: skip
    loss = trainer._compute_loss(trainer.model, batch)
    # policy term: advantages cancel. Rows' means 2 and 4, mean 3, times .5, over 2 accumulations
    assert loss.item() == pytest.approx(0.75 * share)
    gradients = torch.autograd.grad(loss, [policy_BT, reference_BT])
    torch.testing.assert_close(gradients[0], torch.tensor([[-1.0, -1.0], [1.0, 1.0]]) / 8)
    torch.testing.assert_close(gradients[1], torch.full((2, 2), -0.5 / 8 * share))


@pytest.mark.parametrize("rl", [{"iterations": 2}, {"steps_per_generation": 2}, {}])
def test_completions_are_needed_of_the_problems_that_steps_see(
    bench: Any, configure: Any, rl: dict[str, Any]
):
    """4 steps of 2 prompts are 8 of the 12; with two iterations a batch is drawn every other."""
    config = configure(anchor={"kl": "forward"}, rl={**rl, "prompts_per_step": 2})
    rows = rows_seen(len(PROMPTS), config.rl)
    assert len(rows) == (4 if rl.get("iterations") else 8)
    drawn = {PROMPTS[row][1].id: reference_completions()[PROMPTS[row][1].id] for row in rows}
    records = bench.run(config, reference=None, reference_completions=drawn)
    assert len([record["kl/forward"] for record in records]) == 4
    missing = PROMPTS[rows[-1]][1].id
    del drawn[missing]
    with pytest.raises(TrainingError, match=f"problem {missing} has no completion"):
        bench.trainer(config, reference_completions=drawn)


def test_where_dynamic_sampling_may_take_any_problem_all_are_needed(configure: Any):
    config = configure(rl={"dynamic_sampling": True, "prompts_per_step": 2})
    assert rows_seen(12, config.rl) == list(range(12))


def test_training_pulls_the_policy_towards_the_references_completions(bench: Any, configure: Any):
    rl = {"steps": 12, "learning_rate": 0.02, "warmup_ratio": 0.0, "save_every": 12}
    config = configure(anchor={"kl": "forward", "beta": 1.0}, rl=rl)
    arguments = {"reference": None, "reference_completions": reference_completions()}
    records = bench.run(config, **arguments)
    assert records[-1]["kl/forward"] < records[0]["kl/forward"] - 1
    assert "kl/reference" not in records[0]


def test_missing_completions_and_guides_are_refused(bench: Any, configure: Any):
    with pytest.raises(TrainingError, match="no completion of the reference"):
        bench.run(configure(anchor={"kl": "forward"}), reference=None)
    with pytest.raises((ConfigurationError, ValueError), match="forward KL has none"):
        configure(anchor={"kl": "forward"}, guide={"name": "branch"})
