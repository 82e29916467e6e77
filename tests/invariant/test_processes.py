"""Two processes on gloo: the same batch and completions give the same loss, gradient, weights.

This file is also the program that trains, on a list of orders.
"""

import json
import sys
from importlib.metadata import EntryPoint
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file
from toy_policy import (
    Bench,
    configuration,
    defined,
    fixed_completions,
    reference_completions,
    same,
)
from trl import GRPOTrainer

from sage_cli.methods.dars import SecondStage
from sage_cli.methods.formulas import group_advantages
from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings import own_code
from sage_cli.store.run import Run
from sage_cli.training.validation import Validator

CASES = [
    ("grpo", "token", "dapo"),
    ("grpo", "random", "grpo"),
    ("per-token", "none", "grpo"),
    ("pkpo", "branch", "dr_grpo"),
    ("entropy-shaped", "branch", "dapo"),
    ("pacs", "branch", ""),
    ("dars", "branch", "dr_grpo"),
    ("rlpr", "branch", "grpo"),
    ("dph-rl", "none", "grpo"),
    ("alpha-dpg", "none", "dr_grpo"),
    ("archer", "none", "dapo"),
    ("rs-grpo", "none", "grpo"),
    ("grpo", "rapo", "dr_grpo"),
    ("bnpo", "branch", "dr_grpo"),
    ("maxrl", "token", "grpo"),
]
ANCHORS = {
    "bnpo": {"rows": "informative", "ema": 0.8, "ema_every": 2, "reset_every": 2},
    "alpha-dpg": {"kl": "none"},
    "archer": {"tokens": "certain", "rows": "informative"},
    "maxrl": {"kl": "reverse", "estimator": "head", "head_tokens": 5},
}
"""The anchor of a method's case."""
OWN = {
    "pacs": {"iterations": 3},  # so that scores differ from 0
    "dars": {"most_rollouts": 10},
    "rlpr": {"reward_filter": 0.1},
    "dph-rl": {"weight": 3.0},
    "rs-grpo": {"rewards": [{"name": "random", "p": 0.4}, "plurality"]},
    "archer": {"steps_per_generation": 1, "iterations": 3},
    "entropy-shaped": {"epsilon_high": 0.2},
}
"""What a method sets besides."""


def order(base, folder, case, processes):
    """The training of a case in so many processes."""
    algo, guide, loss = case
    rl = {"algo": algo, "steps": 3, "micro_batch": 4, "warmup_ratio": 0.0, **OWN.get(algo, {})}
    rl |= {"loss": loss} if loss else {}
    return {
        "base": str(base),
        "folder": str(folder),
        "name": f"{'-'.join(case)}-of-{processes}",
        "formed": algo == "rlpr",
        "validates": case == CASES[0],
        "sections": {"guide": {"name": guide}, "rl": rl, "anchor": ANCHORS.get(algo, {})},
    }


def second_stage(self, trainer, *given, draw=SecondStage._sample):
    """The second stage's rollouts, which `fixed_completions` is told of."""
    trainer.in_second_stage = True
    try:
        return draw(self, trainer, *given)
    finally:
        trainer.in_second_stage = False


class PerToken(PolicyGradient):
    """Reads everything that an advantage can: the tokens' entropies decide how a group's is spread.

    Sums over rows, so that it would tell other rows, masks or signals from its own.
    """

    algo: Literal["per-token"] = "per-token"

    def advantages(self, inputs):
        advantage_B1 = group_advantages(inputs.rewards_PN).reshape(-1, 1)
        entropy_BT = inputs.entropy_BT * inputs.mask_BT
        share_BT = entropy_BT / entropy_BT.sum() * inputs.mask_BT.sum() + inputs.logps_BT / 10
        return advantage_B1 * share_BT * inputs.mask_BT


def registered(group, **_):
    """The method above, as if a package had registered it."""
    found = EntryPoint("per-token", "test_processes:PerToken", group)
    return (found,) if group == Method.package else ()


def train(order):
    """In a process of its own, with completions that any number of processes sees."""
    own_code.entry_points = registered
    GRPOTrainer._generate_single_turn = fixed_completions
    GRPOTrainer.formed = order["formed"]
    SecondStage._sample = second_stage
    validator = Validator(2, lambda _: {"eval/pass@1": 0.5}) if order["validates"] else None
    config = configuration(**order["sections"])
    others = {}
    if config.rl.samples_beforehand:
        others["reference_completions"] = reference_completions()
    bench = Bench.at(order["base"], order["folder"])
    bench.run(config, order["name"], validator=validator, **others)


@pytest.fixture(scope="module")
def trained(base, start, two_processes, tmp_path_factory):
    """The folder of every case's training, in one process and in two."""
    folder = tmp_path_factory.mktemp("processes")
    alone, together = ([order(base, folder, case, n) for case in CASES] for n in (1, 2))
    process = start(__file__, *alone)
    two_processes(__file__, together)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_as_one(trained, case):
    folders = [trained / f"{'-'.join(case)}-of-{n}" for n in (1, 2)]
    one, two = (Run(folder).metrics.read() for folder in folders)
    assert [record["step"] for record in two] == [1, 2, 3]
    looked = [2, 3] if case == CASES[0] else []  # every second step, and the last
    assert [record["step"] for record in two if "eval/pass@1" in record] == looked
    # a second stage is filled up to whole groups for each process
    skipped = ("time/", "memory/", *(["sampled/"] if case[0] == "dars" else []))
    for first, second in zip(one, two, strict=True):
        of_each = {"memory/peak_gib/0", "memory/peak_gib/1"}
        assert second.keys() == first.keys() | of_each
        for key, value in first.items():
            if not key.startswith(skipped):
                assert defined(second[key]) == same(value, abs=1e-5, rel=1e-5), key
    if case[0] == "dars":
        assert sum(record["rollouts/extra"] for record in one) > 0
        assert all(record["groups/taught"] > 0 for record in one)
    if case[0] == "rlpr":
        assert all(0 < record["reward/formed"] < 1 for record in one)
        assert all(record["reward/probability"] > 0 for record in one)
    if case[0] == "dph-rl":
        assert any(record["divergence"] > 0.01 for record in one if record["groups/held"])
    weights = [load_file(folder / "model" / "model.safetensors") for folder in folders]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    for one in json.loads(sys.argv[1]):
        train(one)
