"""Two processes on gloo: the same batch and completions give the same loss, gradient, weights."""

import pytest
import torch
from safetensors.torch import load_file
from toy_policy import defined, same

from sage_cli.store.run import Run

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
        "fixed": True,
        "formed": algo == "rlpr",
        "validates": case == CASES[0],
        "sections": {"guide": {"name": guide}, "rl": rl, "anchor": ANCHORS.get(algo, {})},
    }


@pytest.fixture(scope="module")
def trained(base, start, two_processes, tmp_path_factory):
    """The folder of every case's training, in one process and in two."""
    folder = tmp_path_factory.mktemp("processes")
    alone, together = ([order(base, folder, case, n) for case in CASES] for n in (1, 2))
    process = start(*alone)
    two_processes("toy_run.py", together)
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
