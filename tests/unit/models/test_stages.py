"""The stages of a command, described."""

import pytest

from sage_cli.config.load import load
from sage_cli.evaluation.evaluate import Evaluation, EvaluationStage
from sage_cli.models.memory_estimates import prompt_tokens
from sage_cli.models.stages import Described, Stage, memory_of, plan_of
from sage_cli.training.run import RlTraining


class Told(Stage):
    """A stage of a name that takes some memory, or none."""

    def __init__(self, name, gib):
        self.name, self.gib = name, gib

    def describe(self):
        return Described(self.name, {"state": "not begun"})

    def memory(self, gpu_gb):
        if self.gib is None:
            return super().memory(gpu_gb)
        return Described(f"memory of {self.name} on {gpu_gb} GB", {"GiB": self.gib})


STAGES = [Told("start", None), Told("training", 3.0)]


def test_memory_follows_the_stages_and_is_left_out_where_nothing_is_computed():
    assert [one.title for one in plan_of(STAGES)] == ["start", "training"]
    found = plan_of(STAGES, 24)
    assert [one.title for one in found] == ["start", "training", "memory of training on 24 GB"]
    assert found[-1].facts == {"GiB": 3.0}


PAPER = "qwen2.5-math-7b"


def stages(preset, gpu, *sets):
    config = load((preset,), sets=sets).config
    return memory_of([*RlTraining.of(config).stages, EvaluationStage(Evaluation(config), [])], gpu)


def test_the_papers_setting_fits_an_h100_and_no_l4():
    # 256 rows x (512 + 6,144) tokens x 57,344 bytes = 98 GB beside 15 GB of weights
    warm_up, training, sampling = stages(PAPER, 80, "sampling.max_tokens=6144")
    assert [one.facts["fits"] for one in (warm_up, training, sampling)] == [True, True, False]
    # 7,615,616,512 weights of two bytes and 20,185,088 adapters of four
    assert training.facts["weights, GiB"] == pytest.approx(
        (15_231_233_024 + 80_740_352) / 2**30, 0.01
    )
    assert "halves them" in sampling.facts["does not fit"]
    assert "texts of" in sampling.facts["vLLM"]
    small = stages(PAPER, 24)
    assert [one.facts["fits"] for one in small][1:] == [False, False]
    assert "rl.micro_batch" in small[1].facts["does not fit"]


def test_an_engine_has_the_share_of_a_card_that_its_settings_say():
    sets = ("sampling.vllm.gpu_memory_utilization=0.5", "sampling.vllm.tensor_parallel_size=2")
    said = stages(PAPER, 24, *sets)[2].facts["vLLM"]
    # 24 GB less 15,231,233,024 bytes of weights, by 2,560 tokens x 57,344 bytes
    assert said == "59 texts of 2560 tokens at once in 50% of each of 2 GPUs"
    alone = stages(PAPER, 24, sets[0])[2].facts["vLLM"]
    assert alone.startswith("weights and one text of 2560 tokens take more than 50% of the GPU")
    assert stages(PAPER, 24, "sampling.backend=vllm")[2].facts["fits"] is True
    facts = stages(PAPER, 24, "sampling.servers=['http://a:1']")[2].facts
    assert facts == {"servers": "http://a:1; no model is loaded here"}
    facts = stages(PAPER, 80, "rollout.backend=vllm")[1].facts
    assert facts["vLLM, GiB"] == pytest.approx(0.3 * 80e9 / 2**30, rel=0.01)
    # .6 of 80e9 bytes are 44.7 GiB beside 14.4 of weights, while 2 texts take less
    facts = stages("r1-distill-qwen-7b", 80, "rollout.backend=vllm")[0].facts
    assert facts["at the peak"] == "rollout"
    assert facts["peak, GiB"] == pytest.approx(14.4 + 44.7, abs=0.1)
    assert facts["fits"] is True


def test_sharding_divides_what_a_card_holds_and_its_advice_can_be_followed():
    sets = ("rl.processes=4", "rl.accelerate=zero3", "rl.micro_batch=4")
    preset = "qwen2.5-3b-instruct-full"
    alone, spread = (stages(preset, 40, *more)[0].facts for more in ((), sets))
    assert alone["fits"] is False
    assert "each of 4 x 40 GB" in stages(preset, 40, *sets)[0].title
    for part in ("weights, GiB", "optimizer, GiB", "gradients, GiB"):
        assert spread[part] == pytest.approx(alone[part] / 4, rel=0.01)
    # float32 weights of 4 bytes, and AdamW's two moments of 8 in all
    assert alone["optimizer, GiB"] == pytest.approx(2 * alone["weights, GiB"], rel=0.01)
    training = stages(PAPER, 24)[1]
    advice = "rl.processes=2 with rl.accelerate=fsdp2 and rl.optimizer=adamw"
    assert advice in training.facts["does not fit"]
    sets = ("rl.processes=2", "rl.accelerate=fsdp2", "rl.optimizer=adamw")
    followed = stages(PAPER, 24, *sets)[1].facts
    # 20,185,088 adapters, 8 bytes each, on two GPUs
    assert followed["optimizer, GiB"] == pytest.approx(20_185_088 * 8 / 2 / 2**30, rel=0.01)
    alone = stages(PAPER, 24, "rl.algo=effective-rank")[1].facts["does not fit"]
    assert "accelerate" not in alone


def test_unknown_models_are_named_and_the_longest_prompt_is_counted():
    (_, training, _) = stages(PAPER, 80, "model.path=./nowhere")
    assert training.facts == {"unknown": "no config.json of ./nowhere is here that tells its sizes"}
    # the laptop's problems are two two-digit numbers and an operation: 99*99=?
    assert prompt_tokens(load(("tiny",)).config) in (7, 8)
    assert prompt_tokens(load((PAPER,)).config) == 512
