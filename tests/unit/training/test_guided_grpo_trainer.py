"""The anchor in somebody's own TRL script: TRL's arguments, and what the guide adds to them."""

import runpy
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

    def train(trainer_class=GuidedGRPOTrainer, *, arguments=None, **named):
        settings = {
            "beta": 0.3, "max_steps": 3, "logging_steps": 1, "learning_rate": 1e-2, "seed": 3,
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2,
            "num_generations": 4, "max_completion_length": 8, "use_cpu": True, "bf16": False,
            "save_strategy": "no", "disable_tqdm": True,
        }  # fmt: skip
        args = GRPOConfig(str(tmp_path), **(settings | (arguments or {})))
        named = {"train_dataset": ROWS, "processing_class": tokenizer} | named
        trainer = trainer_class(load_model(base), even, args, **named)
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
        (0.1, {"rows": "wrong"}, "rows='wrong' asks which completions are right"),
        (0.1, {"guide": RapoGuide()}, "guide 'rapo' asks which completions are right"),
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
