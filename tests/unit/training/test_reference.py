"""References that follow the policy, through real trainings."""

import re

import pytest
import torch
from toy_policy import PROMPTS, adapted, reference_completions, timeless, weights
from transformers import TrainerCallback
from trl import GRPOTrainer

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.settings.model import LoraSection
from sage_cli.settings.sft import SftSection
from sage_cli.store.completion import Completion
from sage_cli.store.run import Run
from sage_cli.training.prompt_order import rows_seen
from sage_cli.training.reference import ReferenceCompletions, average
from sage_cli.training.sft import Example, train_sft

LORA = {"tuning": "lora", "lora": {"dropout": 0.0}}


class Snapshots(TrainerCallback):
    """Policy and reference after each step, and how many weights the optimiser remembers."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.policy = []
        self.reference = []
        self.remembered = []

    def take(self):
        moving = self.trainer.moving
        self.reference.append({k: v.detach().clone() for k, v in moving.weights.items()})
        self.policy.append({k: moving._policy[k].detach().clone() for k in moving.weights})

    def on_step_end(self, *_, **__):
        self.take()
        self.remembered.append(len(self.trainer.optimizer.state))


def watched(bench, config, **changed):
    """A whole training, step by step, from its start."""
    trainer = bench.trainer(config, **changed)
    seen = Snapshots(trainer)
    seen.take()
    trainer.add_callback(seen)
    trainer.train()
    return seen


def test_an_average_is_that_of_the_formula():
    reference = {"w": torch.tensor([1.0], dtype=torch.float64)}
    for policy in (2.0, 3.0, 4.0):
        average(reference, {"w": torch.tensor([policy], dtype=torch.float64)}, 0.9)
    # .9 + .2 = 1.1; .99 + .3 = 1.29; 1.161 + .4 = 1.561
    assert reference["w"].item() == pytest.approx(1.561, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ema", [0.9, 0.99])
def test_a_reference_that_is_the_policy_or_keeps_all_of_itself_stays_so(dtype, ema):
    policy = {"w": torch.linspace(-3, 3, 1000).to(dtype)}
    reference = {"w": policy["w"].clone()}
    average(reference, policy, ema)
    average(reference, {"w": policy["w"] + 1}, 1.0)
    assert torch.equal(reference["w"], policy["w"])


@pytest.mark.parametrize("model", [{}, {"model": LORA}], ids=["full", "lora"])
def test_the_reference_is_the_average_of_the_policies(bench, configure, model):
    config = configure(anchor={"ema": 0.7, "ema_every": 2}, rl={"steps": 5}, **model)
    changed = {"model": adapted(bench, config)} if model else {}
    seen = watched(bench, config, **changed)
    for name, first in seen.reference[0].items():
        expected = first.double()
        for step in range(1, 6):
            if step % 2 == 0:
                expected = 0.7 * expected + 0.3 * seen.policy[step][name].double()
            torch.testing.assert_close(
                seen.reference[step][name].double(), expected, atol=1e-6, rtol=0
            )
    moved = [(seen.policy[5][k] - seen.reference[5][k]).abs().max() for k in seen.reference[0]]
    assert max(moved) > 1e-4


@pytest.mark.parametrize("model", [{}, {"model": LORA}], ids=["full", "lora"])
def test_a_reset_makes_the_policy_the_reference_and_forgets_moments(bench, configure, model):
    config = configure(anchor={"reset_every": 2}, rl={"steps": 4}, **model)
    changed = {"model": adapted(bench, config)} if model else {}
    seen = watched(bench, config, **changed)
    for name, first in seen.reference[0].items():
        assert torch.equal(seen.reference[1][name], first)
        assert torch.equal(seen.reference[2][name], seen.policy[2][name])
        assert torch.equal(seen.reference[3][name], seen.policy[2][name])
    assert seen.remembered[0] > 0
    assert seen.remembered[1] == 0
    assert seen.remembered[2] == seen.remembered[0]


def test_a_reset_within_a_batch_is_one_at_its_end(bench, configure):
    """Batches end after steps 2, 4, 6 and 8; resets are due at 3 and 6, and act at 4 and 6."""
    seen = watched(bench, configure(anchor={"reset_every": 3}, rl={"steps": 8, "iterations": 2}))
    for step in range(1, 9):
        last = max([0, *(reset for reset in (4, 6) if reset <= step)])
        expected = seen.policy[last] if last else seen.reference[0]
        for name, weight in seen.reference[step].items():
            assert torch.equal(weight, expected[name]), (step, name)
        assert (seen.remembered[step - 1] == 0) == (step in (4, 6)), step


def test_after_a_reset_the_divergence_is_from_the_new_reference_and_rates_go_on(bench, configure):
    """Steps are on-policy here: in the step after a reset both are the same."""
    rl = {"steps": 4, "warmup_ratio": 0}
    plain = bench.records(configure(rl=rl))
    records = bench.records(configure(anchor={"reset_every": 2}, rl=rl))
    found = [record["kl/k3"] for record in records]
    assert found[0] == pytest.approx(0, abs=1e-9)
    assert found[1] > 1e-6
    assert found[2] == pytest.approx(0, abs=1e-9)
    assert found[3] > 1e-6
    assert "anchor/equal_groups" not in records[0]
    assert 0 <= records[1]["anchor/equal_groups"] < 1
    rates = [record["learning_rate"] for record in records]
    assert rates == [record["learning_rate"] for record in plain]
    assert rates[0] > rates[3]


USE = "(use "


@pytest.mark.parametrize(
    ("anchor", "said", "way"),
    [
        *(({"ema": ema}, "anchor.ema", "") for ema in (0, -0.1, 1.5)),
        ({"reset_every": 4}, "the training ends after 4 steps: the reset would never come", USE),
        (
            {"ema": 0.9, "reference": "pre-sft"},
            "another model than the policy: it can't follow",
            USE,
        ),
        ({"ema": 0.9, "kl": "none"}, "there is no reverse KL to the policy's own completion", USE),
        ({"rows": "wrong", "kl": "forward"}, "anchor.rows is wrong, and there is no reverse", USE),
        ({"tokens": "certain", "kl": "forward"}, "anchor.tokens is certain, and there is no", USE),
        ({"tokens": "uncertain", "kl": "none"}, "anchor.tokens is uncertain, and there is no", USE),
        ({"tokens": "certain", "beta": 0}, "anchor.beta is 0", USE),
        ({"reset_every": 2, "beta": 0}, "anchor.beta is 0", USE),
        ({"ema_every": 3}, "anchor.ema=0.9", "(add "),
        ({"uncertain_share": 0.3}, "anchor.tokens=certain", "(add "),
    ],
)
def test_what_can_not_be_is_refused_with_the_way_out(configure, anchor, said, way):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        configure(anchor=anchor)
    assert way in str(caught.value)


def shifted(base, folder, factor):
    """The base with logits a little off, as coarse arithmetic makes them."""
    model = load_model(base)
    with torch.no_grad():
        model.lm_head.weight.mul_(factor)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("compute_dtype", "accepted", "refused"),
    # a factor of 1.005 moves the completions' log-probabilities by some 3e-3 nats, as bfloat16 was
    # seen to do on a GPU, and others in proportion
    [("float32", 1.0, 1.0005), ("bfloat16", 1.005, 1.3)],
)
def test_the_tolerance_follows_the_arithmetic(
    bench, configure, tmp_path, compute_dtype, accepted, refused
):
    model = {"kind": "pretrained", "tuning": "full", "compute_dtype": compute_dtype}
    config = configure(model=model, rl={"steps": 1})
    (record,) = bench.records(config, reference=shifted(bench.base, tmp_path / "n", accepted))
    assert abs(record["kl/reference"]) < 0.05
    with pytest.raises(TrainingError, match=r"differ .* nats a token \(tolerance"):
        bench.run(config, "far", reference=shifted(bench.base, tmp_path / "f", refused))


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_after_warm_up_with_dropout_policy_and_reference_are_one_network(
    bench, configure, tmp_path, tuning
):
    """Of an adapter, and of attention's own; under two masks they would be far apart."""
    model = load_model(bench.base, trainable=True)
    if tuning == "lora":
        model = attach_lora(model, LoraSection(dropout=0.1))
    else:
        model.config.attention_dropout = 0.2
        model.save_pretrained(tmp_path / "start")
        model = load_model(tmp_path / "start", trainable=True)
    examples = [Example(f"{a}+{b}=", str(a + b)) for a in range(5) for b in range(5)]
    sft = SftSection(steps=4, batch_size=8, learning_rate=1e-2, optimizer="adamw", warmup_steps=0)
    warm_up = Run(tmp_path / "warm-up")
    train_sft(sft, model, bench.tokenizer, examples, warm_up, lambda _: None)
    kept = {value for value in dropouts(model) if value}
    assert kept == {0.1 if tuning == "lora" else 0.2}  # supervised warm-up keeps it
    policy = load_model(warm_up.model, trainable=True)
    assert {value for value in dropouts(policy) if value} == kept
    settings = {"model": {"kind": "pretrained", "tuning": tuning, "lora": {"dropout": 0.1}}}
    records = bench.records(configure(**settings), model=policy, reference=warm_up.model)
    assert records[0]["kl/reference"] == pytest.approx(0, abs=1e-6)
    assert records[-1]["kl/reference"] != 0
    assert not any(dropouts(policy))


def dropouts(model):
    """The probabilities of all modules, whichever way they hold them."""
    own = [getattr(module, "attention_dropout", 0.0) for module in model.modules()]
    return own + [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]


def test_completions_are_taken_in_turn_padded_and_masked():
    completions = ReferenceCompletions([[[1, 2, 3], [4]], [[5, 6]]])
    ids_BT, mask_BT = completions.take(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 2, 9]))
    assert ids_BT.tolist() == [[1, 2, 3], [4, 0, 0], [1, 2, 3], [5, 6, 0]]
    assert mask_BT.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 0]]


def test_end_of_sequence_is_there_where_it_was_drawn(tokenizer):
    (_, problem), *_ = PROMPTS
    eos, tag = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("</SOLUTION>")
    four = tokenizer.convert_tokens_to_ids("4")

    def encoded(text, reason, ids):
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
    assert encoded("4", "length", None) == [four]
    # ids that encoding the text would not give
    assert encoded("44", "stop", (four, four, eos)) == [four, four, eos]


def test_a_reference_that_stops_at_the_tag_teaches_no_token_after_it(bench, configure):
    tag = bench.tokenizer.convert_tokens_to_ids("</SOLUTION>")
    drawn = {
        problem.id: [Completion(problem.id, 0, 0, "</SOLUTION>", 1, "stop", (tag,))]
        for _, problem in PROMPTS
    }
    rl = {"steps": 12, "learning_rate": 0.02, "warmup_ratio": 0.0, "save_every": 12}
    config = configure(anchor={"kl": "forward", "beta": 5.0}, rl=rl)
    records = bench.records(config, reference=None, reference_completions=drawn)
    # the tag alone is learnt: cross-entropy falls to nearly 0, which end-of-sequence after it, a
    # second token, would be part of
    assert records[-1]["kl/forward"] < 0.5 < 1.5 < records[0]["kl/forward"]
    assert "kl/reference" not in records[0]
    ids_BT, mask_BT = ReferenceCompletions.encode(
        [problem for _, problem in PROMPTS], drawn, bench.tokenizer, "</SOLUTION>", range(12)
    ).take(torch.tensor([0]), torch.tensor([0]))
    assert (ids_BT.tolist(), mask_BT.tolist()) == ([[tag]], [[1]])


@pytest.mark.parametrize(("schedule", "share"), [("constant", 1.0), ("cosine", 0.25)])
def test_loss_and_gradient_by_hand(bench, configure, monkeypatch, schedule, share):
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
        "prompt_ids": ones,
        "prompt_mask": ones,
        "completion_ids": ones,
        "completion_mask": ones,
        "advantages": torch.tensor([1.0, -1.0]),
        "num_items_in_batch": torch.tensor(4.0),
        "row_ids_B": torch.tensor([0, 5]),
        "prompt_row_B": torch.tensor([0, 1]),
    }
    loss = trainer._compute_loss(trainer.model, batch)
    # policy term: advantages cancel. Rows' means 2 and 4, mean 3, times .5, over 2 accumulations
    assert loss.item() == pytest.approx(0.75 * share)
    gradients = torch.autograd.grad(loss, [policy_BT, reference_BT])
    torch.testing.assert_close(gradients[0], torch.tensor([[-1.0, -1.0], [1.0, 1.0]]) / 8)
    torch.testing.assert_close(gradients[1], torch.full((2, 2), -0.5 / 8 * share))


@pytest.mark.parametrize("rl", [{"iterations": 2}, {"steps_per_generation": 2}, {}])
def test_completions_are_needed_of_the_problems_that_steps_see(bench, configure, rl):
    """4 steps of 2 prompts are 8 of the 12; with two iterations a batch is drawn every other."""
    config = configure(anchor={"kl": "forward"}, rl={**rl, "prompts_per_step": 2})
    rows = rows_seen(len(PROMPTS), config.rl)
    assert len(rows) == (4 if rl.get("iterations") else 8)
    drawn = {PROMPTS[row][1].id: reference_completions()[PROMPTS[row][1].id] for row in rows}
    records = bench.records(config, reference=None, reference_completions=drawn)
    assert len([record["kl/forward"] for record in records]) == 4
    missing = PROMPTS[rows[-1]][1].id
    del drawn[missing]
    with pytest.raises(TrainingError, match=f"problem {missing} has no completion"):
        bench.trainer(config, reference_completions=drawn)


def test_where_dynamic_sampling_may_take_any_problem_all_are_needed(configure):
    config = configure(rl={"dynamic_sampling": True, "prompts_per_step": 2})
    assert rows_seen(12, config.rl) == list(range(12))


def test_missing_completions_and_guides_are_refused(bench, configure):
    with pytest.raises(TrainingError, match="no completion of the reference"):
        bench.run(configure(anchor={"kl": "forward"}), reference=None)
    with pytest.raises((ConfigurationError, ValueError), match="forward KL has none"):
        configure(anchor={"kl": "forward"}, guide={"name": "branch"})


@pytest.mark.parametrize(
    ("algo", "kl"), [("grpo", "reverse"), ("pacs", "reverse"), ("grpo", "forward")]
)
def test_an_annealed_training_is_held_less_and_less(bench, configure, algo, kl):
    rl = {"algo": algo, "steps": 6, "iterations": 2, "save_every": 2}
    anchor = {"schedule": "cosine", "beta": 0.4, "kl": kl}
    guide = {"name": "random", "epsilon": (0.9, 0.5)} if kl == "reverse" else {"name": "none"}
    completions = {"reference": None, "reference_completions": reference_completions()}
    given = completions if kl == "forward" else {}
    config = configure(rl=rl, anchor=anchor, guide=guide)
    whole = bench.run(config, "whole", **given)
    # (1 + cos(pi t / 6)) / 2 for t = 0 .. 5
    shares = [1, 0.933013, 0.75, 0.5, 0.25, 0.066987]
    betas = [record["anchor/beta"] for record in whole]
    assert betas == pytest.approx([0.4 * share for share in shares], abs=1e-6)
    assert all(("kl/forward" if given else "kl/reference") in record for record in whole)
    if given:  # the methods' resumes are in tests/invariant
        rest = bench.resumed(config, "resumed", 4, **given)
        assert [record["step"] for record in rest] == [3, 4, 5, 6]
        assert timeless(rest) == timeless(whole[2:])
        assert weights(bench.folder / "resumed/model") == weights(bench.folder / "whole/model")
    # the last steps were held less than under a constant beta
    constant = configure(rl=rl, anchor={**anchor, "schedule": "constant"}, guide=guide)
    bench.run(constant, "constant", **given)
    assert weights(bench.folder / "constant/model") != weights(bench.folder / "whole/model")
