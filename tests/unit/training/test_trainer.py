"""What the trainer reads: prompts as the other commands read them, and products in bfloat16."""

from copy import deepcopy

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from sage_cli.models.loading import load_model
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.settings.prompt import PromptSection
from sage_cli.training.sft import Example, tokenized

QUESTIONS = ["2*3=?", "12*4=?"]


@pytest.fixture
def with_bos(tokenizer):
    """A tokenizer that begins every text with a token of its own, and whose template does too."""
    tokenizer = deepcopy(tokenizer)
    bos = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.eos_token_id)]
    )
    tokenizer.chat_template = bos + "{{ messages[-1]['content'] }}"
    return tokenizer


def evaluated_ids(base, tokenizer, prompts):
    """The prompts' ids as evaluation gives them to the model, in their order."""
    model, seen = load_model(base).eval(), []

    def watch(_module, arguments, named):
        ids_BT = named["input_ids"] if "input_ids" in named else arguments[0]
        seen.extend(ids_BT.tolist())

    parameters = SamplingParameters(0.0, 1.0, 0, 0.0, 1, None)
    handle = model.register_forward_pre_hook(watch, with_kwargs=True)
    with TransformersSampler(model, tokenizer, parameters, 4) as sampler:
        for prompt in prompts:
            list(sampler.sample([SampleRequest(prompt, prompt, (0,), 0)]))
    handle.remove()
    return seen


def test_training_and_evaluation_read_the_same_prompt(bench, configure, base, with_bos):
    template = PromptTemplate.from_section(PromptSection(format="chat", system=None), with_bos)
    prompts = [template.render(question) for question in QUESTIONS]
    assert len(with_bos(prompts[0])["input_ids"]) == len("2*3=?") + 2  # what must not happen

    rows = tokenized([Example(prompt, "6") for prompt in prompts], with_bos, 64)
    learnt = [ids[: labels.count(-100)] for ids, labels in zip(*rows.values(), strict=True)]
    assert [ids.count(with_bos.eos_token_id) for ids in learnt] == [1, 1]

    problems = [(text, Problem(text, "toy", text, "6")) for text in prompts]
    rl = {"prompts_per_step": 2, "rollouts_per_prompt": 2, "steps": 1}
    trainer = bench.trainer(configure(rl=rl), tokenizer=with_bos, prompts=problems)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(
        [row for row in trainer.train_dataset for _ in range(2)]
    )
    rolled = {
        tuple(ids[mask.bool()].tolist())
        for ids, mask in zip(batch["prompt_ids"], batch["prompt_mask"], strict=True)
    }
    assert rolled == set(map(tuple, learnt))
    assert evaluated_ids(base, with_bos, prompts) == learnt


def test_bfloat16_products_leave_float32_weights(bench, configure):
    """What full tuning needs: updates aren't rounded away, and products are fast."""
    model = {"kind": "pretrained", "tuning": "full", "compute_dtype": "bfloat16"}
    trainer = bench.trainer(configure(model=model))
    assert trainer.args.bf16
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    assert bench.trainer(configure(model=model | {"compute_dtype": "float32"})).args.bf16 is False
