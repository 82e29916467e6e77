"""Attention, the head's type and the ratio's floor reach Transformers and TRL, and identities."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import random_model

from sage_cli.errors import ConfigurationError
from sage_cli.models.loading import attach_lora, build_scratch, load_model
from sage_cli.models.planned import rl_run, sft_run
from sage_cli.models.policy import Policy
from sage_cli.models.reference import policy_and_reference
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.model import PretrainedModel, ScratchModel, kernel_arguments
from sage_cli.store.run import Runs
from sage_cli.training import hardware
from sage_cli.training.hardware import require_kernels
from sage_cli.training.heads import compute_logits_in_float32
from sage_cli.training.rl import rollout_parameters
from sage_cli.training.rollouts import sampled_rollouts

FULL = {"kind": "pretrained", "tuning": "full"}


def test_attention_is_that_of_policy_and_reference(bench, configure, base, tokenizer):
    config = configure(model=FULL | {"path": str(base), "attention": "eager"})
    model, reference = policy_and_reference(config, Policy(str(base), section=config.model))
    trainer = bench.trainer(config, model=model, reference=reference)
    section = ScratchModel(kind="scratch", hidden=8, layers=1, heads=1, attention="eager")
    models = (trainer.model, trainer.ref_model, build_scratch(section, tokenizer))
    assert {model.config._attn_implementation for model in models} == {"eager"}
    assert load_model(base).config._attn_implementation == "sdpa"


def test_what_is_chosen_is_part_of_the_identity(configure, base, tmp_path):
    runs = Runs(tmp_path)

    def names(rl=None, floor=None, **model):
        rollout = {"backend": "vllm", "vllm": {"importance_floor": floor}}
        config = configure(model=FULL | {"path": str(base)} | model, rl=rl or {}, rollout=rollout)
        policy = Policy(str(base))
        return rl_run(config, policy, runs, 1).id, sft_run(config, runs).id

    rl, sft = names()
    assert names(attention=None, rl={"cast_lm_head_to_fp32": False}) == (rl, sft)
    other = names(attention="eager")
    assert other[0] != rl
    assert other[1] != sft
    assert names(rl={"cast_lm_head_to_fp32": True})[0] not in (rl, other[0])
    assert names(floor=0.5)[0] != rl


def test_a_head_in_float32_changes_what_bfloat16_rounds(bench, configure, base):
    def first_batch(cast, compute, estimator):
        config = configure(
            model=FULL | {"compute_dtype": compute},
            rl={"cast_lm_head_to_fp32": cast},
            anchor={"estimator": estimator},
        )
        trainer = bench.trainer(config)
        torch.manual_seed(0)
        rows = [row for row in trainer.train_dataset.select(range(2)) for _ in range(4)]
        trainer.model.eval()
        texts = [row["prompt"] for row in rows]
        ids = trainer.processing_class(text=texts, return_tensors="pt", padding=True)["input_ids"]
        with torch.no_grad(), trainer.compute_loss_context_manager():
            passed = trainer.run_pass("reference", trainer.model, ids, torch.ones_like(ids), 3)
        head = passed.logps_BT if passed.head_logps_BTH is None else passed.head_logps_BTH
        return passed.logps_BT, head.sum(dim=-1)

    for place, estimator in ((0, "k3"), (1, "head")):
        plain, cast, exact = (
            first_batch(*how, estimator)[place]
            for how in ((False, "bfloat16"), (True, "bfloat16"), (False, "float32"))
        )
        assert not torch.equal(plain, cast)
        assert (cast - exact).abs().mean() < (plain - exact).abs().mean()
    plain, cast = (first_batch(how, "float32", "k3")[0] for how in (False, True))
    assert torch.equal(plain, cast)


@pytest.mark.parametrize("tied", [True, False])
def test_an_adapters_head_computes_in_float32_under_bfloat16_in_rollouts_too(
    bench, configure, tokenizer, tied
):
    config = configure(
        model={"compute_dtype": "bfloat16"},
        rl={"cast_lm_head_to_fp32": True, "steps": 1},
        rollout={"backend": "builtin"},
    )
    model = attach_lora(random_model(tokenizer, tie_word_embeddings=tied), config.model.lora)
    head, passes = model.get_base_model().lm_head, []
    head.register_forward_hook(lambda _, inputs, output: passes.append((inputs[0], output)))
    parameters = rollout_parameters(config.rollout, PromptTemplate(config.prompt, ""))
    sample = sampled_rollouts(parameters, 7, tokenizer)
    bench.records(config, model=model, reference=None, sample=sample)
    assert len(passes) > 3
    for states, logits in passes:
        expected = torch.nn.functional.linear(states.float(), head.weight)
        assert torch.equal(logits, expected)


def test_a_head_that_an_adapter_changes_is_refused_in_float32(tokenizer):
    lora = LoraConfig(r=2, target_modules=["q_proj", "lm_head"])
    adapted = get_peft_model(random_model(tokenizer, tie_word_embeddings=False), lora)
    with pytest.raises(ConfigurationError, match="head's own weights"):
        compute_logits_in_float32(adapted.get_base_model(), 1.0)


@pytest.mark.parametrize(
    ("settings", "package"),
    [
        ({"attention": "flash_attention_2"}, "flash_attn"),
        ({"attention": "kernels-community/flash-attn2"}, "kernels"),
        ({"kernels": True}, "kernels"),
    ],
)
def test_what_kernels_need_is_said_before_anything_is_trained(settings, package, monkeypatch):
    model = PretrainedModel.model_validate(settings)
    monkeypatch.setattr(hardware, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=f"needs the package {package}, which is not"):
        require_kernels(model)
    monkeypatch.setattr(hardware, "find_spec", lambda name: name == package)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="runs on a GPU, and there is none"):
        require_kernels(model)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert next(iter(settings)) in require_kernels(model)


def test_arguments_are_transformers_own():
    model = PretrainedModel(attention="flash_attention_2", kernels=True)
    both = {"attn_implementation": "flash_attention_2", "use_kernels": True}
    assert kernel_arguments(model) == both
    assert kernel_arguments(PretrainedModel()) == {}
