"""The anchor in somebody's own TRL script: TRL's arguments, and what the guide adds to them."""

import math
import runpy
from copy import deepcopy
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import sage_cli
from sage_cli import GuidedGRPOTrainer
from sage_cli.errors import ConfigurationError
from sage_cli.guides import BranchGuide, NoGuide, RapoGuide
from sage_cli.models.loading import load_model

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "guided_grpo.py"
ROWS = Dataset.from_list([{"prompt": f"{a}*{b}=?"} for a in range(2, 6) for b in range(2, 6)])
BRANCH = BranchGuide(tau=1.0, rho=0.3)


def even(completions, **_columns):
    """Pay 1 for a completion whose first character has an even code."""
    return [float(bool(text) and ord(text[0]) % 2 == 0) for text in completions]


@pytest.fixture
def trained(base, tokenizer, tmp_path):
    """Train the toy policy for three steps; return the trainer with its log history."""

    def train(trainer_class=GuidedGRPOTrainer, *, arguments=None, reward_funcs=even, **named):
        settings = {
            "beta": 0.3,
            "max_steps": 3,
            "logging_steps": 1,
            "learning_rate": 1e-2,
            "seed": 3,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 2,
            "num_generations": 4,
            "max_completion_length": 8,
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
            "disable_tqdm": True,
        }
        args = GRPOConfig(str(tmp_path), **(settings | (arguments or {})))
        named = {"train_dataset": ROWS, "processing_class": tokenizer} | named
        trainer = trainer_class(load_model(base), reward_funcs, args, **named)
        trainer.train()
        return trainer

    return train


def weights(trainer):
    return [weight.detach() for weight in trainer.model.parameters()]


def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


@pytest.mark.parametrize(("estimator", "corrected"), [("k3", False), ("k3-corrected", True)])
def test_without_a_guide_it_is_trls_trainer_up_to_rounding(trained, estimator, corrected):
    # Adam would turn the sign of a gradient near 0 into a step of the whole learning rate
    plain = {"optim": "sgd"}
    theirs = trained(GRPOTrainer, arguments={"use_bias_correction_kl": corrected, **plain})
    ours = trained(estimator=estimator, arguments=plain)
    assert losses(ours) == pytest.approx(losses(theirs), rel=1e-5, abs=1e-7)
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_a_guide_changes_the_loss_from_the_first_step(trained):
    plain, guided = trained(guide=NoGuide()), trained(guide=BRANCH)
    # the first batch is the same; before any update k3 of pi to pi is 0, and to q pi it is above
    assert losses(guided)[0] > losses(plain)[0]
    first = guided.state.log_history[0]
    assert first["guide/q_mean"] > 1
    assert first["kl/shaped"] < first["kl/reference"]
    assert "guide/q_mean" not in plain.state.log_history[0]


def test_the_example_of_the_docs_trains(base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE))["main"](str(base))
    assert (tmp_path / "guided" / "model.safetensors").is_file()
    assert len(EXAMPLE.read_text().splitlines()) <= 40


def test_grades_choose_rows_and_reach_guides(trained):
    wrong = trained(rows="wrong", right_at=1.0)
    right = trained(rows="right", right_at=1.0)
    held = [trainer.state.log_history[0]["anchor/rows"] for trainer in (wrong, right)]
    assert sum(held) == pytest.approx(1)  # a token is a right or a wrong completion's
    assert 0 < held[0] < 1
    assert "guide/q_mean" in trained(guide=RapoGuide(), right_at=1.0).state.log_history[0]


def test_a_schedule_has_the_length_that_epochs_give(trained):
    # 16 prompts, 4 of them a step (8 rows x 2 / 4): an epoch has 4 steps
    trainer = trained(
        arguments={"max_steps": -1, "num_train_epochs": 1}, guide=BRANCH, schedule="cosine"
    )
    assert trainer.state.max_steps == 4
    assert trainer.guide._training_steps == 4
    # in step 3 of 0 to 3: (1 + cos(3 pi / 4)) / 2 = (1 - .7071068) / 2, of beta .3
    assert trainer.state.log_history[3]["anchor/beta"] == pytest.approx(0.3 * 0.1464466, abs=1e-7)


def test_evaluation_is_not_recorded_as_training(trained):
    evaluating = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8}
    trainer = trained(
        arguments=evaluating, guide=BRANCH, rows="wrong", right_at=1.0, eval_dataset=ROWS
    )
    assert len(losses(trainer)) == 3
    of_evaluation = [row for row in trainer.state.log_history if "eval_loss" in row]
    assert len(of_evaluation) == 3
    assert not any(name.startswith("guide/") for row in of_evaluation for name in row)
    assert trainer.tokens.drain(trainer.accelerator) == {}  # evaluation came after the last log


@pytest.mark.parametrize(
    ("beta", "arguments", "said"),
    [
        (0.0, {"guide": BRANCH}, "beta is 0"),
        (0.0, {"rows": "wrong", "right_at": 1.0}, "beta is 0"),
        (0.0, {"teacher": object()}, "guide, rows or teacher could change"),
        (0.1, {"rows": "wrong"}, "rows='wrong' needs to know which completions are correct"),
        (0.1, {"guide": RapoGuide()}, "guide 'rapo' needs to know which completions are correct"),
        (0.1, {"estimator": "k4"}, "estimator is 'k4'"),
        (0.1, {"rows": "some"}, "rows is 'some'"),
    ],
)
def test_what_would_do_nothing_is_refused_before_a_model_is_loaded(tmp_path, beta, arguments, said):
    args = GRPOConfig(str(tmp_path), beta=beta, use_cpu=True, bf16=False)
    with pytest.raises(ConfigurationError, match=said):
        GuidedGRPOTrainer("no/model", even, args, **arguments)


def test_only_what_is_there_can_be_imported():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        sage_cli.Nothing  # noqa: B018


TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}U{{ m.content }};"
    "{% elif m.role == 'tool' %}T{{ m.content }};"
    "{% else %}A{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %};{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A{% endif %}"
)


class Adder:
    """An environment that sets the problem, offers a tool and says the reward."""

    def reset(self, **_):
        self.asked = []
        return " 2 3"

    def add(self, a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        self.asked.append((a, b))
        return str(a + b)

    def get_reward(self):
        return float(len(self.asked) % 2)


def calling(tokenizer, ids, **_):
    """A completion that begins with + calls the tool."""
    text = tokenizer.decode(ids, skip_special_tokens=True)
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    calls = {"tool_calls": [call]} if text.startswith("+") else {}
    return {"role": "assistant", "content": text, **calls}


@pytest.mark.parametrize("trainer_class", [GRPOTrainer, GuidedGRPOTrainer])
def test_environments_and_tools_work_as_in_trl(trained, tokenizer, monkeypatch, trainer_class):
    """What a tool says is attended to and not learnt; the guide shapes the policy's own tokens."""
    tokenizer = deepcopy(tokenizer)
    tokenizer.chat_template, tokenizer.response_schema = TEMPLATE, {"type": "object"}
    tokenizer.parse_response = partial(calling, tokenizer)
    turns = count()

    def scripted(self, prompt_ids, *_, **__):
        texts = ["+1" if next(turns) % 3 else "7" for _ in prompt_ids]
        ids = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
        return ids, None

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", scripted)
    buffered, loss = [], trainer_class._compute_loss

    def watched(self, model, inputs):
        buffered.append(inputs)
        return loss(self, model, inputs)

    monkeypatch.setattr(trainer_class, "_compute_loss", watched)
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in ("sum", "add")] * 4
    guided = {"guide": BRANCH} if trainer_class is GuidedGRPOTrainer else {}
    trainer = trained(
        trainer_class,
        reward_funcs=None,
        arguments={"max_completion_length": 24, "max_tool_calling_iterations": 1},
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        environment_factory=Adder,
        **guided,
    )
    assert [math.isfinite(value) for value in losses(trainer)] == [True] * 3
    masks = [batch["tool_mask"] * batch["completion_mask"] for batch in buffered]
    pairs = list(zip(masks, buffered, strict=True))
    assert any((mask_BT < batch["completion_mask"]).any() for mask_BT, batch in pairs)
    if guided:
        for mask_BT, batch in pairs:
            assert (batch["log_q_BT"][mask_BT == 0] == 0).all()  # q is 1 on what a tool says
        assert any(batch["log_q_BT"].abs().sum() > 0 for batch in buffered)
        assert trainer.state.log_history[0]["guide/q_mean"] > 1
