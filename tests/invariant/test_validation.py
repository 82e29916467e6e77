"""Validation changes nothing about a training, to the last bit."""

import os
import random
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from toy_policy import KilledError, adapted, killing, timeless, weights

from sage_cli.errors import ConfigurationError, Interrupted
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.models.loading import load_model
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.training.validation import Validation, Validator

APART = Benchmark(
    "dev.jsonl",
    tuple(Problem(f"d{a}", "apart", f"{a}+{a}=?", str(a)) for a in range(5)),
    "math",
    None,
)
LOOKED_AT = {
    "prompt": {"format": "plain", "system": None},
    "sampling": {"temperature": 1.0, "min_p": 0.0, "max_tokens": 8},
    "evaluation": {"validation_samples": 4, "samples": 4, "k": "1,4"},
    "grading": {"workers": 1},
}


def validated(records):
    return [record["step"] for record in records if "eval/pass@1" in record]


@pytest.mark.parametrize(
    "case", ["plain", "guide", "micro-batches", "adapter", "iterations", "checkpointing"]
)
def test_weights_are_the_same_with_looks_and_without(bench, configure, case):
    sections = {
        "guide": {"guide": {"name": "random", "epsilon": (0.9, 0.5)}},
        "micro-batches": {"guide": {"name": "branch", "tau": 0.5}, "rl": {"micro_batch": 4}},
        "adapter": {"model": {"tuning": "lora"}},
        "iterations": {"rl": {"iterations": 2, "steps_per_generation": 2}},
        "checkpointing": {"rl": {"gradient_checkpointing": True}},
    }.get(case, {})
    sections["rl"] = {"steps": 5, **sections.get("rl", {})}
    config = configure(**sections, **LOOKED_AT)

    def given(**more):
        fresh = {"model": adapted(bench, config), "reference": None} if case == "adapter" else {}
        return {**fresh, **more}

    plain = bench.run(config, "plain", **given())
    with Validation(2, [APART], config, (1, 2, 4)) as validation:
        validate = partial(
            validation.validate, tokenizer=bench.tokenizer, on_sampled=lambda *_: None
        )
        seen = bench.run(config, "seen", **given(validator=Validator(2, validate)))
    assert validated(seen) == [2, 4, 5]  # every second, and the last
    assert validated(plain) == []
    assert {"eval/pass@1", "eval/pass@2", "eval/pass@4"} <= seen[-1].keys()
    assert timeless(seen, "eval/") == timeless(plain, "eval/")
    assert weights(bench.folder / "seen" / "model") == weights(bench.folder / "plain" / "model")


def test_a_look_leaves_modes_gradients_and_random_states_alone(bench, configure):
    config = configure(**LOOKED_AT)
    model = load_model(bench.base).train()
    model.model.layers[0].eval()
    next(model.parameters()).requires_grad_(False)

    def state():
        modes = [module.training for module in model.modules()]
        open_ = [parameter.requires_grad for parameter in model.parameters()]
        settings = (model.config.use_cache, model.config._attn_implementation)
        drawn = (torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()))
        return modes, open_, settings, drawn, torch.is_grad_enabled(), torch.get_num_threads()

    before, heard = state(), []
    with Validation(1, [APART], config, (1, 2, 4)) as validation:
        found = [
            validation.validate(model, bench.tokenizer, lambda drawn, of: heard.append((drawn, of)))
            for _ in range(2)
        ]
    assert state() == before
    assert found[0] == found[1]
    assert heard[:20] == [(drawn, 20) for drawn in range(1, 21)]  # 5 problems x 4 samples


def test_a_resumed_training_repeats_no_look_and_ends_with_the_same_weights(bench, configure):
    config = configure(rl={"steps": 5}, guide={"name": "token"}, **LOOKED_AT)
    bench.run(config, "plain")
    calls = []

    with Validation(1, [APART], config, (1, 2, 4)) as validation:

        def validate(model):
            calls.append(1)
            return validation.validate(model, bench.tokenizer, lambda *_: None)

        whole = bench.run(config, "whole", validator=Validator(1, validate))
        assert len(calls) == 5
        with pytest.raises(KilledError):
            bench.run(config, "resumed", validator=Validator(1, validate), on_step=killing(3))
        assert len(calls) == 5 + 3
        rest = bench.run(config, "resumed", validator=Validator(1, validate))
    assert len(calls) == 5 + 3 + 3  # the checkpoint is of step 2: steps 3, 4 and 5 are new
    figures = [{k: v for k, v in r.items() if k.startswith("eval/")} for r in (*whole, *rest)]
    assert figures[2:5] == figures[5:]
    for name in ("whole", "resumed"):
        assert weights(bench.folder / name / "model") == weights(bench.folder / "plain" / "model")


def test_a_training_that_is_to_stop_saves_before_it_looks_again(bench, configure):
    heard = []

    def on_step(record):
        heard.append(record)
        if record["step"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    validator = Validator(1, lambda _: {"eval/pass@1": 0.0})
    with pytest.raises(Interrupted, match="SIGTERM"):
        bench.run(configure(rl={"steps": 9}), on_step=on_step, validator=validator)
    assert [record["step"] for record in heard] == [1, 2, 3]
    assert validated(heard) == [1, 2]


def test_a_look_sees_the_model_as_the_step_left_it(bench, configure):
    seen = []

    def validate(model):
        seen.append(float(sum(weight.detach().sum() for weight in model.parameters())))
        return {"eval/pass@1": seen[-1]}

    bench.run(configure(rl={"steps": 2}), validator=Validator(1, validate))
    config = configure(rl={"steps": 2, "save_every": 1})
    bench.run(config, "saved")
    for step, total in enumerate(seen, start=1):
        saved = load_model(bench.folder / "saved" / "checkpoints" / f"checkpoint-{step}")
        assert float(sum(weight.detach().sum() for weight in saved.parameters())) == total
    assert len(set(seen)) == 2


def test_a_problem_without_room_for_its_samples_is_refused_before(bench, configure):
    long = Benchmark("long.jsonl", (Problem("l1", "long", "1" * 56, "1"),), "math", None)
    config, policy = configure(**LOOKED_AT), Policy(str(bench.base))
    Validation(2, [long], config, (1,)).require_room(policy)  # 56 + 8 tokens in a context of 64
    longer = replace(long, problems=(Problem("l2", "long", "1" * 57, "1"),))
    with pytest.raises(ConfigurationError, match="l2 doesn't fit: 57 tokens and 8 new ones"):
        Validation(2, [long, longer], config, (1,)).require_room(policy)
