"""Rollouts of the real engine under min_p, in the trainer's loss: both terms weigh alike.

Everything is as in a training but for the hand-over of weights, which needs a GPU: the engine loads
the policy's own from its folder. What is expected is computed here in float64, from the formulas.
"""

from functools import partial

import pytest
import torch
from toy_policy import PROMPTS, parity_grader
from transformers import AutoModelForCausalLM
from trl.generation import vllm_generation

from sage_cli.config.schema import SageConfig
from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.store.run import Run
from sage_cli.training.rl import RlInputs, build_trainer
from sage_cli.training.rollouts import as_launched, engine_as_asked
from sage_cli.training.token_record import mismatch_statistics

pytestmark = pytest.mark.timeout(1800)

MIN_P, BETA, RHO, TAU, ROWS = 0.01, 0.3, 0.3, 1.0, 16


def configuration():
    return SageConfig.model_validate(
        {
            "model": {"tuning": "full"},
            "rl": {
                "steps": 4,
                "prompts_per_step": 4,
                "rollouts_per_prompt": 4,
                "loss": "grpo",
                "gradient_checkpointing": False,
                "optimizer": "adamw",
                "micro_batch": ROWS,
            },
            "anchor": {"beta": BETA},
            "guide": {"name": "branch", "tau": TAU, "rho": RHO},
            "rollout": {"backend": "vllm", "max_tokens": 12, "min_p": MIN_P},
        }
    )


class Rollouts:
    """A trainer whose engine is vLLM, with a generation batch of its and what is so in float64."""

    def __init__(self, folder, mode):
        config = configuration()
        inputs = RlInputs(
            model=load_model(folder, trainable=True),
            reference=folder,
            tokenizer=load_tokenizer(folder),
            prompts=PROMPTS,
            grader=parity_grader,
        )
        with as_launched(), engine_as_asked(7, 0, mode):
            self.trainer = build_trainer(config, inputs, Run(folder / mode), lambda _: None)
        self.trainer.vllm_generation.sync_weights = lambda: None  # the engine has these weights
        rows = [self.trainer.train_dataset[i // 4] for i in range(ROWS)]
        self.batch = self.trainer._generate_and_score_completions(rows)
        self.batch["advantages"] = torch.linspace(-1, 1, ROWS)
        self.mask_BT = self.batch["completion_mask"].bool()
        self.model = AutoModelForCausalLM.from_pretrained(folder).double().eval()
        self.logps_BTV = self._exact()

    def _exact(self):
        prompt, drawn = self.batch["prompt_ids"], self.batch["completion_ids"]
        ids = torch.cat([prompt, drawn], dim=1)
        attention = torch.cat([self.batch["prompt_mask"], self.batch["completion_mask"]], dim=1)
        logits = self.model(input_ids=ids, attention_mask=attention).logits
        return logits[:, prompt.shape[1] - 1 : -1].log_softmax(-1)

    def kept_mass(self):
        """S, the probability of the tokens that min_p keeps."""
        p_BTV = self.logps_BTV.detach().exp()
        kept = p_BTV >= MIN_P * p_BTV.amax(dim=-1, keepdim=True)
        return (p_BTV * kept).sum(dim=-1)

    def expected_gradient(self, ratio_BT):
        """Of -ratio A log pi (on-policy) and beta times k3 to q pi_ref, per row then over rows.

        The policy is its own reference: k3's d is log q alone; q = 1 + rho max(0, H - tau) <= 1.4.
        """
        logps_BTV = self.logps_BTV
        chosen = self.batch["completion_ids"][..., None]
        logps_BT = logps_BTV.gather(2, chosen)[..., 0]
        entropy_BT = -(logps_BTV.exp() * logps_BTV).sum(-1).detach()
        log_q_BT = (1 + RHO * (entropy_BT - TAU).clamp(min=0)).clamp(max=1.4).log()
        policy = (logps_BT - logps_BT.detach()).exp() * self.batch["advantages"][:, None].double()
        d_BT = log_q_BT + logps_BT.detach() - logps_BT
        loss_BT = -ratio_BT * policy + BETA * (d_BT.exp() - d_BT - 1)
        per_row = (loss_BT * self.mask_BT).sum(1) / self.mask_BT.sum(1)
        self.model.zero_grad()
        per_row.mean().backward(retain_graph=True)
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}

    def gradient(self):
        trainer = self.trainer
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        trainer.model.zero_grad()
        trainer._compute_loss(trainer.model, self.batch).backward()
        return {name: p.grad.double() for name, p in trainer.model.named_parameters()}


@pytest.fixture(scope="module")
def quick_engine():
    plain = vllm_generation.LLM
    vllm_generation.LLM = partial(plain, enforce_eager=True, dtype="float32")
    yield
    vllm_generation.LLM = plain


@pytest.fixture(scope="module", params=["raw_logprobs", "processed_logprobs"])
def rollouts(request, unsure, quick_engine):
    return Rollouts(unsure, request.param)


def distance(found, expected):
    """The difference's norm over the expected gradient's."""
    difference = sum((found[name] - expected[name]).square().sum() for name in expected)
    return float((difference / sum(g.square().sum() for g in expected.values())) ** 0.5)


def test_the_ratio_the_kept_mass_and_the_gradient(rollouts):
    batch, mask_BT, kept_BT = rollouts.batch, rollouts.mask_BT, rollouts.kept_mass()
    chosen_BT = rollouts.logps_BTV.detach().gather(2, batch["completion_ids"][..., None])[..., 0]
    ratio_BT = batch["importance_sampling_ratio"].double()
    engine_BT = batch["sampling_per_token_logps"].double()
    one_BT, mean_kept = torch.ones_like(kept_BT), kept_BT[mask_BT].mean().item()
    found = rollouts.gradient()
    trainer = rollouts.trainer
    record = mismatch_statistics(trainer.tokens.drain(trainer.accelerator), 2.0)
    assert 0.9 < mean_kept < 0.997
    if trainer.vllm_generation.llm.llm_engine.model_config.logprobs_mode == "raw_logprobs":
        assert torch.allclose(engine_BT[mask_BT], chosen_BT[mask_BT], atol=1e-4)
        assert torch.allclose(ratio_BT[mask_BT], one_BT[mask_BT], atol=1e-4)
        assert record["mismatch/ratio_mean"] == pytest.approx(1, abs=1e-5)
        assert distance(found, rollouts.expected_gradient(one_BT)) < 2e-5
        return
    # what the engine is asked for no longer: each ratio is the kept mass, on one term alone
    assert torch.allclose(engine_BT[mask_BT], (chosen_BT - kept_BT.log())[mask_BT], atol=1e-4)
    assert torch.allclose(ratio_BT[mask_BT], kept_BT[mask_BT], atol=1e-4)
    assert record["mismatch/ratio_mean"] == pytest.approx(mean_kept, abs=1e-4)
    assert distance(found, rollouts.expected_gradient(kept_BT)) < 2e-5
    assert distance(found, rollouts.expected_gradient(one_BT)) > 3e-3


def test_a_training_asks_for_what_the_formulas_want():
    assert configuration().rollout.logprobs_mode == "raw_logprobs"
