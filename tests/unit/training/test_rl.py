"""The mapping to TRL's words."""

import json
import math
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from recorded import meaning
from safetensors.torch import load_file
from toy_policy import PROMPTS, KilledError, adapted, killing, parity_grader, timeless, weights
from trl import GRPOConfig, GRPOTrainer

from sage_cli.errors import StoreError, TrainingError
from sage_cli.guides import RandomGuide
from sage_cli.methods.grpo import Grpo
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import seal
from sage_cli.training.prompt_order import training_order
from sage_cli.training.rl import grpo_arguments
from sage_cli.training.trainer import SageTrainer

SERVER = {"mode": "server", "server_url": "http://elsewhere:8000"}
THEIRS = GRPOConfig(output_dir="out", use_cpu=True, bf16=False)


def by_vllm(**vllm):
    return {"rollout": {"backend": "vllm", "vllm": vllm}}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        # every default that differs from the paper's
        (
            {
                "rl": {
                    "loss": "bnpo",
                    "micro_batch": 4,
                    "iterations": 2,
                    "save_every": 5,
                    "seed": 9,
                },
                "rollout": {
                    "temperature": 0.9,
                    "top_p": 0.8,
                    "top_k": 5,
                    "min_p": 0.1,
                    "max_tokens": 33,
                },
                "anchor": {"beta": 0.07},
            },
            {
                "max_steps": 4,
                "per_device_train_batch_size": 4,
                "gradient_accumulation_steps": 4,
                "steps_per_generation": 4,
                "generation_batch_size": 16,
                "num_generations": 4,
                "num_iterations": 2,
                "loss_type": "bnpo",
                "beta": 0.07,
                "scale_rewards": "group",
                "use_bias_correction_kl": False,
                "epsilon": 0.2,
                "epsilon_high": 0.2,
                "temperature": 0.9,
                "top_p": 0.8,
                "top_k": 5,
                "min_p": 0.1,
                "max_completion_length": 33,
                "save_steps": 6,
                "seed": 9,
                "data_seed": 9,
                "warmup_steps": 0.1,
                "use_vllm": False,
                "gradient_checkpointing": False,
                "mask_truncated_completions": False,
                "logging_nan_inf_filter": False,
            },
        ),
        # 16 completions a step in 2 micro-batches of 8; TRL counts micro-batches
        (
            {"rl": {"steps_per_generation": 2, "micro_batch": 8}},
            {
                "gradient_accumulation_steps": 2,
                "steps_per_generation": 4,
                "generation_batch_size": 32,
            },
        ),
        *(
            ({"anchor": anchor}, {"beta": beta, "use_bias_correction_kl": corrected})
            for anchor, beta, corrected in (
                ({"kl": "reverse", "beta": 0.1}, 0.1, False),
                ({"kl": "reverse", "beta": 0.1, "estimator": "k3-corrected"}, 0.1, True),
                ({"kl": "reverse", "beta": 0.1, "estimator": "reward"}, 0.1, False),
                ({"kl": "none", "beta": 0.1}, 0.0, False),
                ({"kl": "forward", "beta": 0.1}, 0.0, False),
            )
        ),
        # checkpoints fall on the ends of generation batches
        ({"rl": {"save_every": 50, "iterations": 4}}, {"save_steps": 52}),
        ({"rl": {"save_every": 52, "iterations": 4}}, {"save_steps": 52}),
        (
            {"rl": {"save_every": 50, "iterations": 2, "steps_per_generation": 3}},
            {"save_steps": 54},
        ),
        ({"rl": {"advantage": "none"}}, {"scale_rewards": "none"}),
        ({"rl": {"advantage": "beta"}}, {"scale_rewards": "none"}),
        # what TRL offers besides is off unless it is asked for
        (
            {},
            {"use_adaptive_entropy": False, "trust_remote_code": False}
            | {
                name: getattr(THEIRS, name)
                for name in (
                    "delta",
                    "importance_sampling_level",
                    "entropy_coef",
                    "top_entropy_quantile",
                )
            },
        ),
        (
            {
                "rl": {
                    "delta": 4.0,
                    "importance_sampling_level": "sequence",
                    "iterations": 2,
                    "entropy_coefficient": 0.01,
                    "top_entropy_quantile": 0.2,
                }
            },
            {
                "delta": 4.0,
                "importance_sampling_level": "sequence",
                "entropy_coef": 0.01,
                "top_entropy_quantile": 0.2,
            },
        ),
        (
            {"rl": {"entropy_target": 0.3, "entropy_coefficient_step": 0.01}},
            {
                "use_adaptive_entropy": True,
                "entropy_target": 0.3,
                "entropy_coef": 0,
                "entropy_coef_delta": 0.01,
                "entropy_coef_min": 0,
                "entropy_coef_max": 1,
            },
        ),
        # without clipping no ratio is beyond the range
        ({"rl": {"clip": False}}, {"epsilon": 1, "epsilon_high": math.inf}),
        (
            {"model": {"kind": "pretrained", "trust_remote_code": True}},
            {"trust_remote_code": True},
        ),
        (
            by_vllm(
                tensor_parallel=2,
                memory_share=0.45,
                sleep=True,
                importance_cap=3.5,
                importance_floor=0.5,
            ),
            {
                "vllm_mode": "colocate",
                "vllm_tensor_parallel_size": 2,
                "vllm_gpu_memory_utilization": 0.45,
                "vllm_enable_sleep_mode": True,
                "vllm_importance_sampling_correction": True,
                "vllm_importance_sampling_mode": "token_truncate",
                "vllm_importance_sampling_clip_max": 3.5,
                "vllm_importance_sampling_clip_min": 0.5,
            },
        ),
        (
            by_vllm(**SERVER),
            {
                "vllm_mode": "server",
                "vllm_server_base_url": SERVER["server_url"],
                "vllm_importance_sampling_clip_max": 2.0,
            },
        ),
        (
            by_vllm(importance_correction="sequence_mask"),
            {
                "vllm_importance_sampling_correction": True,
                "vllm_importance_sampling_mode": "sequence_mask",
            },
        ),
        (by_vllm(importance_correction="none"), {"vllm_importance_sampling_correction": False}),
    ],
)
def test_trl_is_told(configure, sections, expected):
    found = grpo_arguments(configure(**sections), Path("out"))
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("stops", "opened", "ended"),
    [
        (False, None, {}),
        (
            True,
            None,
            {
                "stop": ["</SOLUTION>"],
                "include_stop_str_in_output": True,
                "skip_special_tokens": False,
            },
        ),
        # the engine would end a thought that quotes the tag
        (True, "", {}),
        (True, "<think>", {}),
    ],
)
@pytest.mark.parametrize("vllm", [{}, SERVER])
def test_vllm_ends_a_rollout_at_every_end_and_at_the_tag_where_that_is_asked_for(
    bench, configure, monkeypatch, vllm, stops, opened, ended
):
    """The tokenizer may end otherwise than the base, whose ends are all that the engine knows."""
    rollout = {"backend": "vllm", "vllm": vllm, "stop_at_answer": stops}
    monkeypatch.setattr(PromptTemplate, "opened", opened)
    made = []

    class StoppedError(Exception):
        """The trainer is not built: it would load vLLM."""

    def trainer(**given):
        made.append(given["args"])
        raise StoppedError

    monkeypatch.setattr("sage_cli.training.rl.SageTrainer", trainer)
    policy = load_model(bench.base)
    policy.generation_config.eos_token_id = [3, 7]
    with pytest.raises(StoppedError):
        bench.trainer(configure(rollout=rollout), model=policy)
    assert made[0].use_vllm
    ends = sorted({3, 7, bench.tokenizer.eos_token_id})
    assert made[0].generation_kwargs == {"stop_token_ids": ends, **ended}


def test_an_engine_that_samples_past_the_closing_tag_is_cut_there(bench, configure, monkeypatch):
    tokenizer = bench.tokenizer
    texts = ("1</SOLUTION>+2", "1+2")
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    kept = tokenizer("1</SOLUTION>", add_special_tokens=False)["input_ids"]
    logps = [[-float(place) for place in range(len(row))] for row in ids]
    for stops, engine in ((True, logps), (True, None), (False, logps)):
        trainer = bench.trainer(configure(rollout={"stop_at_answer": stops}))
        sampled = partial(lambda given, *_: given, (ids, engine))
        with monkeypatch.context() as patched:
            patched.setattr(GRPOTrainer, "_generate_single_turn", sampled)
            cut_ids, cut_logps = trainer._generate_single_turn([], None, {}, 1)
        first = kept if stops else ids[0]
        assert cut_ids == [first, ids[1]]
        assert cut_logps == (engine and [engine[0][: len(first)], engine[1]])


def test_resume_is_bit_identical_and_rollouts_are_kept_at_their_steps(bench, configure):
    """With a guide that reads grades; `tests/invariant` has the others and the methods."""
    tracking = {"rollouts": 3, "rollouts_every": 2}
    rl = {"steps": 5, "save_every": 2}
    config = configure(guide={"name": "rapo"}, rl=rl, tracking=tracking)
    whole = bench.run(config, "whole")
    bench.resumed(config, "torn", 3, 5)  # both in the middle of what rollouts.jsonl holds by then
    assert weights(bench.folder / "torn/model") == weights(bench.folder / "whole/model")
    resumed = MetricsFile(bench.folder / "torn/metrics.jsonl").read()
    assert timeless(resumed) == json.loads(json.dumps(timeless(whole)))
    assert [record["step"] for record in resumed] == [1, 2, 3, 4, 5]
    assert not [key for record in resumed for key in record if meaning(key) is None]
    rows = Run(bench.folder / "torn").rollouts.read()
    assert Run(bench.folder / "whole").rollouts.read() == rows
    assert [row["step"] for row in rows] == [1, 1, 1, 3, 3, 3, 5, 5, 5]
    golds = {text: problem.gold for text, problem in PROMPTS}
    for row in rows:
        assert row["gold"] == golds[row["prompt"]]
        (graded,) = parity_grader([row["gold"]], [row["completion"]])
        assert (row["grade"], row["reward"]) == (graded.status, float(graded.status == "right"))
    assert len({row["prompt"] for row in rows[:3]}) == 3


def test_a_checkpoint_of_another_run_or_model_is_not_gone_on_from(bench, configure):
    bench.run(configure(rl={"steps": 2}), "theirs")
    with pytest.raises(KilledError):
        bench.run(configure(), "ours", on_step=killing(1))
    theirs, ours = (bench.folder / name / "checkpoints" for name in ("theirs", "ours"))
    copied = shutil.copytree(theirs / "checkpoint-2", ours / "checkpoint-2")
    before = (bench.folder / "ours/metrics.jsonl").read_bytes()
    with pytest.raises(StoreError, match="checkpoint-2 was written by theirs"):
        bench.run(configure(), "ours")
    # one that claims to be ours, of a model with a layer more
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    (copied / "sealed.json").unlink()
    seal(copied)
    with pytest.raises(
        StoreError, match=r"does not belong to the model that is trained: num_hidden_layers 3 and 2"
    ):
        bench.run(configure(), "ours")
    assert (bench.folder / "ours/metrics.jsonl").read_bytes() == before
    assert not (bench.folder / "ours/model").exists()


def test_an_adapters_checkpoint_on_another_base_is_not_gone_on_from(bench, configure, tmp_path):
    config = configure(model={"kind": "pretrained", "tuning": "lora"})
    other = shutil.copytree(bench.base, tmp_path / "other")
    of_base, of_other = (
        attach_lora(load_model(base), config.model.lora) for base in (bench.base, other)
    )
    with pytest.raises(KilledError):
        bench.run(config, model=of_base, reference=None, on_step=killing(3))
    with pytest.raises(StoreError, match=f"folder {bench.base} and {other}"):
        bench.run(config, model=of_other, reference=None)


@pytest.mark.filterwarnings("ignore:for 10 steps", "ignore:for 20 steps")
def test_the_policy_learns_and_its_records_say_so(bench, configure):
    rl = {"steps": 24, "learning_rate": 0.02, "save_every": 30, "stop_when_stuck": False}
    config = configure(rl=rl)
    records = bench.run(config)
    first = records[0]  # sampled before the policy has moved
    late = sum(record["reward"] for record in records[-5:]) / 5
    assert late > first["reward"] + 0.2
    assert first["kl/reference"] == pytest.approx(0, abs=1e-6)
    assert first["kl/k3"] == pytest.approx(0, abs=1e-6)
    assert records[-1]["kl/k3"] > 1e-3
    for record in records:
        assert record["grade/right"] + record["grade/wrong"] == 16
        assert record["reward"] == pytest.approx(record["grade/right"] / 16)
        assert record["entropy/p50"] <= record["entropy/p99"]
        assert not any(key.startswith("guide/") for key in record)


def test_branch_statistics_are_those_of_equation_11(bench, configure):
    guide = {"name": "branch", "tau": 0.0, "rho": 0.1, "q_max": 1.5}  # 1 + .1 log 102 = 1.46
    (record,) = bench.records(configure(guide=guide, rl={"steps": 1}))
    assert record["guide/shaped"] == 1
    assert record["guide/q_mean"] == pytest.approx(1 + 0.1 * record["entropy"], abs=1e-6)
    assert record["guide/clamped"] == 0
    assert record["kl/shaped"] == pytest.approx(record["kl/reference"] - record["guide/log_q"])
    (record,) = bench.records(configure(guide=guide | {"q_max": 1.2}, rl={"steps": 1}))
    # q is clamped where H >= 2
    assert record["guide/q_max"] == pytest.approx(1.2)
    assert 0.05 < record["guide/clamped"] < 1
    assert (record["entropy/p50"] >= 2) == (record["guide/clamped"] >= 0.5)


def test_q_is_fixed_within_an_iteration(bench, configure):
    # two passes over each generation: q stays although the policy (and its entropy) moves
    guide = {"name": "branch", "tau": 2.0}
    rl = {"steps": 4, "iterations": 2, "learning_rate": 0.02, "warmup_ratio": 0.0}
    records = bench.records(configure(guide=guide, rl=rl))
    q = [record["guide/q_mean"] for record in records]
    assert q[0] == q[1] != q[2] == q[3]
    assert records[0]["entropy"] != records[1]["entropy"]


def test_two_steps_share_a_generation_and_take_half_of_it_each(bench, configure, monkeypatch):
    taken = []
    plain = SageTrainer._compute_loss

    def watched(self, model, inputs):
        taken.append((self.state.global_step, inputs["row_ids_B"].tolist()))
        return plain(self, model, inputs)

    monkeypatch.setattr(SageTrainer, "_compute_loss", watched)
    rl = {"steps": 4, "steps_per_generation": 2, "micro_batch": 8, "save_every": 1}
    config = configure(rl=rl | {"learning_rate": 0.02, "warmup_ratio": 0.0})
    whole = bench.run(config, "whole")
    # 4 prompts x 4 rollouts a step: 32 completions are drawn for two steps of two micro-batches
    for first in (0, 2):
        rows = [row for step, ids in taken if step in (first, first + 1) for row in ids]
        assert sorted(rows) == list(range(32))
    assert [len(ids) for _, ids in taken] == [8] * 8
    assert [record["grade/right"] + record["grade/wrong"] for record in whole] == [32] * 4
    rewards = [record["reward"] for record in whole]
    assert (rewards[0], rewards[2]) == (rewards[1], rewards[3])
    # the second step's policy is another than the one that drew its completions
    assert whole[0]["kl/reference"] == pytest.approx(0, abs=1e-6) != whole[1]["kl/reference"]
    rest = bench.resumed(config, "torn", 4)
    assert [record["step"] for record in rest] == [3, 4]  # saved where a generation ends
    assert weights(bench.folder / "torn/model") == weights(bench.folder / "whole/model")


def test_every_prompt_comes_once_an_epoch_however_steps_share_generations():
    for steps in (6, 7, 8):
        rl = Grpo(steps=steps, prompts_per_step=3, steps_per_generation=2)
        order = training_order(12, rl)
        assert len(order) == (18 if steps == 6 else 24)  # generations of 6 prompts
        assert sorted(order[:12]) == list(range(12))


def test_all_checkpoints_and_no_rollouts_are_kept_where_that_is_asked_for(bench, configure):
    rl = {"steps": 4, "save_every": 1, "keep_checkpoints": None}
    bench.run(configure(rl=rl, tracking={"rollouts": 0}))
    kept = sorted(path.name for path in (bench.folder / "run/checkpoints").iterdir())
    assert kept == [f"checkpoint-{step}" for step in (1, 2, 3, 4)]
    assert Run(bench.folder / "run").rollouts.read() == []


@pytest.mark.parametrize(
    ("clock", "iterations", "expected"),
    [
        ("optimiser_step", 1, [0, 0, 1, 1, 2, 2, 3, 3]),
        # two micro-batches a step: the call is step x 2 + place
        ("loss_call", 1, [0, 1, 2, 3, 4, 5, 6, 7]),
        # q is computed on the first of two passes, at steps 0 and 2, and stays although the policy
        # moves; the second pass counts too
        ("loss_call", 2, [0, 1, 4, 5]),
    ],
)
def test_the_guides_clock_and_that_a_resumed_run_reads_it_on(
    bench, configure, monkeypatch, clock, iterations, expected
):
    read = []
    plain = RandomGuide.q
    monkeypatch.setattr(
        RandomGuide, "q", lambda self, s, step: [read.append(step), plain(self, s, step)][1]
    )
    config = configure(
        guide={"name": "random", "epsilon": (0.5, 0.1), "schedule_clock": clock},
        rl={"steps": 4, "micro_batch": 8, "iterations": iterations, "save_every": 2},
    )
    bench.run(config, "whole")
    assert read == expected
    with pytest.raises(KilledError):
        bench.run(config, "torn", on_step=killing(3))
    read.clear()
    bench.run(config, "torn")
    assert read == expected[len(expected) // 2 :]
    assert weights(bench.folder / "torn/model") == weights(bench.folder / "whole/model")


@pytest.mark.parametrize("reference", ["initial", "pre-sft"])
def test_lora_is_held_to_its_reference(bench, configure, reference):
    config = configure(
        model={"kind": "pretrained", "tuning": "lora"},
        anchor={"reference": reference, "beta": 0.1},
        rl={"warmup_ratio": 0.0},
    )
    start = adapted(bench, config).state_dict()
    records = bench.run(config, model=adapted(bench, config), reference=None)
    if reference == "initial":
        assert records[0]["kl/reference"] == pytest.approx(0, abs=1e-6)
    else:
        assert records[0]["kl/reference"] > 0.01
    saved = load_file(bench.folder / "run/model/adapter_model.safetensors")
    assert all("lora_" in name for name in saved)
    assert any(
        not torch.equal(tensor, start[name.replace(".weight", ".default.weight")])
        for name, tensor in saved.items()
    )


def test_an_adapter_trained_under_a_relative_path_names_its_base_absolutely(
    bench, configure, monkeypatch
):
    monkeypatch.chdir(bench.base.parent)
    config = configure(model={"kind": "pretrained", "tuning": "lora"}, rl={"steps": 2})
    model = attach_lora(load_model(bench.base.name), config.model.lora)
    bench.run(config, model=model, reference=None)
    for place in ("model", "checkpoints/checkpoint-2"):
        saved = json.loads((bench.folder / "run" / place / "adapter_config.json").read_text())
        assert saved["base_model_name_or_path"] == str(bench.base)


def test_another_reference_than_the_policys_start_is_found_out(bench, configure, tmp_path):
    other = load_model(bench.base)
    with torch.no_grad():
        other.lm_head.weight.mul_(3)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(TrainingError, match="'initial', but at step 0"):
        bench.run(configure(), reference=tmp_path / "other")
    assert not (bench.folder / "run/metrics.jsonl").exists()


def test_warm_up_begins_above_0(bench, configure):
    """Two steps of five: 1/3 and 2/3 of the peak, then linearly 3/3, 2/3, 1/3."""
    rl = {"steps": 5, "warmup_ratio": 0.4, "learning_rate": 3e-3}
    rates = [record["learning_rate"] for record in bench.records(configure(rl=rl))]
    assert rates == pytest.approx([1e-3, 2e-3, 3e-3, 2e-3, 1e-3])


def test_one_step_moves_the_policy(bench, configure):
    before = load_model(bench.base).state_dict()
    bench.run(configure(rl={"steps": 1, "learning_rate": 1e-2}))
    after = load_model(bench.folder / "run/model").state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_step_that_could_move_nothing_is_refused(configure):
    rl = {"steps": 1, "compat": "official", "warmup_ratio": 0.1}
    with pytest.raises(ValueError, match=r"rl\.steps 1 would move nothing"):
        configure(rl=rl)
    configure(rl=rl | {"warmup_ratio": 0.0})
    configure(rl=rl | {"steps": 2})
