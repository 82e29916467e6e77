"""The toy base learns from a toy policy of RL, on held-out problems, without a reward."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sage_cli.config.load import load
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate

PROMPTS, EACH, NEW_TOKENS = 100, 8, 48
OFF, LENGTH = ("--set", "tracking.wandb=off"), ("--set", "rl.steps=60")


@pytest.fixture(scope="module")
def sage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distillation")

    def type_(*words):
        command = [sys.executable, "-m", "sage_cli", *words, "--json"]
        typed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert typed.returncode == 0, typed.stderr
        return json.loads(typed.stdout)

    type_.folder = folder
    return type_


@pytest.fixture(scope="module")
def teacher(sage):
    """Forty steps of GRPO from the base that comes with sage."""
    return sage("rl", *OFF)["id"]


def divergence(policy, teacher):
    """KL(policy || teacher) of a state, over the whole vocabulary: the mean of the policy's own.

    The states are those of completions of held-out prompts, and log-probabilities are computed by
    the models' own forward.
    """
    config = load(sets=[f"evaluation.limit={PROMPTS}"]).config
    tokenizer = load_tokenizer(policy)
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    (benchmark,) = load_benchmarks(config.evaluation, config.data, None)
    texts = [template.render(problem.question) for problem in benchmark.problems]
    asked = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    cut, models = asked["input_ids"].shape[1], [load_model(policy), load_model(teacher)]
    torch.manual_seed(0)
    with torch.no_grad():
        ids_BX = models[0].generate(
            **asked,
            do_sample=True,
            top_k=0,
            max_new_tokens=NEW_TOKENS,
            num_return_sequences=EACH,
            eos_token_id=tokenizer.eos_token_id,
        )
        ended_BT = ids_BX[:, cut:] == tokenizer.eos_token_id
        live_BT = ended_BT.cumsum(1) - ended_BT.long() == 0  # the end itself is a token
        mask_BX = torch.cat([asked["attention_mask"].repeat_interleave(EACH, 0), live_BT], dim=1)
        positions_BX = (mask_BX.cumsum(1) - 1).clamp(min=0)
        given = {"input_ids": ids_BX, "attention_mask": mask_BX, "position_ids": positions_BX}
        ours_BTV, theirs_BTV = (
            model.eval()(**given).logits[:, cut - 1 : -1].log_softmax(-1) for model in models
        )
    states_BT = (ours_BTV.exp() * (ours_BTV - theirs_BTV)).sum(-1)
    return states_BT[live_BT].mean().item()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("estimator", ["reward", "head"])
def test_the_base_moves_half_of_the_way_to_the_teacher_and_answers_better(sage, teacher, estimator):
    runs = Path(sage.folder, "runs")
    where = ("--set", f"anchor.reference=runs/{teacher}/model", "--set", "rl.rewards=[]")
    taught = sage("rl", *OFF, *where, "--set", f"anchor.estimator={estimator}", *LENGTH)["id"]
    (base,) = runs.glob("sft-*")
    before, after = (
        divergence(str(runs / name / "model"), str(runs / teacher / "model"))
        for name in (base.name, taught)
    )
    assert 0 < after < before / 2
    compared = sage("compare", taught, base.name, "--n", "16", "--k", "1")
    assert compared["comparisons"]["arithmetic"]["low"][0] > 0
