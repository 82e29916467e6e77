"""FSDP 2 over two processes on gloo: the weights of one process, and checkpoints that resume.

torchrun runs this file, too. accelerate shards over GPUs alone: on CPUs the one thing that is
changed is that it takes gloo's processes for such. TRL, accelerate and torch do the rest as ever.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from safetensors.torch import load_file
from toy_policy import Bench, adapted, configuration, defined, fixed_completions, same
from trl import GRPOTrainer

from sage_cli.methods.rlpr import ProbabilityReward
from sage_cli.models.loading import load_model
from sage_cli.settings.shipped import shipped
from sage_cli.settings.yaml_files import read_yaml
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import newest_sealed, step_of
from sage_cli.training.launch import join_processes

STEPS, SAVED = 4, 2
pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() == 1, reason="takes two GPUs, or none: then CPUs over gloo"
)
KINDS = ("full", "lora", "rlpr", "rapo")
FILES = dict.fromkeys(KINDS, "model.safetensors") | {"lora": "adapter_model.safetensors"}


def sections(kind):
    """Of a training whose completions are fixed.

    `full` and `lora` tune a policy that has a reference, `rapo` all weights with a reference that
    is tilted, `rlpr` all weights by probabilities.
    """
    rl = {"steps": STEPS, "save_every": SAVED, "micro_batch": 4, "warmup_ratio": 0.0}
    rl["loss"] = "dapo"
    if kind == "rlpr":
        rl |= {"algo": "rlpr", "epsilon_high": 0.2, "reward_filter": 0.1}
        return {"rl": rl, "anchor": {"kl": "none"}, "model": {"tuning": "full"}}
    if kind == "rapo":
        guide = {"name": "rapo", "phi_right": 0.8}
        return {"rl": rl, "anchor": {"beta": 0.1}, "model": {"tuning": "full"}, "guide": guide}
    return {"rl": rl, "anchor": {"beta": 0.1}, "model": {"tuning": kind}}


def policy(bench, kind):
    """The policy as it starts; under `rlpr` unsure enough for every gold to have a chance."""
    if kind == "lora":
        return adapted(bench, configuration(**sections(kind)))
    model = load_model(bench.base, trainable=True)
    if kind == "rlpr":
        with torch.no_grad():
            model.lm_head.weight.mul_(0.1)
    return model


def shard():
    """What `accelerate launch` with the shipped fsdp2.yaml says to each process."""
    said = read_yaml(shipped("configs/accelerate") / "fsdp2.yaml")["fsdp_config"]
    os.environ |= {name.upper(): str(value) for name, value in said.items()}
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    join_processes()
    if not torch.cuda.is_available():
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def noted(folder, chances=ProbabilityReward._chances):
    """How many golds this process is asked for at once, a line for each time."""
    mine = folder / f"golds-{PartialState().process_index}"

    def asked(self, contexts, golds):
        with mine.open("a") as lines:
            lines.write(f"{len(golds)}\n")
        return chances(self, contexts, golds)

    return asked


def train(order):
    """Train it whole, then once more from the checkpoint in the middle; note both weights."""
    GRPOTrainer._generate_single_turn = fixed_completions
    GRPOTrainer.formed = order["kind"] == "rlpr"
    folder = Path(order["folder"])
    ProbabilityReward._chances = noted(folder)
    bench = Bench.at(order["base"], folder)
    kind, main = order["kind"], PartialState().is_main_process

    def run():
        bench.run(configuration(**sections(kind)), kind, model=policy(bench, kind))
        PartialState().wait_for_everyone()

    run()
    trained = folder / kind
    if order.get("resumed"):
        if main:
            (trained / "model").rename(trained / "whole")
            shutil.rmtree(trained / f"checkpoints/checkpoint-{STEPS}")
        PartialState().wait_for_everyone()
        run()


@pytest.fixture(scope="module")
def trained(base, two_processes, tmp_path_factory):
    """A folder where each kind was trained sharded, and taken up again in the middle."""
    folder = tmp_path_factory.mktemp("sharded")
    order = {"base": str(base), "folder": str(folder), "resumed": True}
    two_processes(__file__, [{**order, "kind": kind} for kind in KINDS])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sharded_training_goes_on_from_its_checkpoint(trained, kind):
    run = trained / kind
    last = newest_sealed(run / "checkpoints")
    assert last is not None
    assert step_of(last) == STEPS
    whole, resumed = (load_file(run / place / FILES[kind]) for place in ("whole", "model"))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert [record["step"] for record in Run(run).metrics.read()] == list(range(1, STEPS + 1))
    assert 0 < SAVED < STEPS


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="in bfloat16 sums of another order differ")
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_what_one_process_trains(trained, base, tmp_path, kind, monkeypatch):
    """At step 0 the reference was checked; its divergence is the same at every step."""
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", GRPOTrainer._generate_single_turn)
    monkeypatch.setattr(ProbabilityReward, "_chances", ProbabilityReward._chances)
    monkeypatch.setattr(GRPOTrainer, "formed", False, raising=False)
    train({"base": str(base), "folder": str(tmp_path), "kind": kind})

    def records(folder):
        return Run(folder / kind).metrics.read()

    def golds(folder):
        kept = folder / kind / f"checkpoints/checkpoint-{SAVED}/reward.json"
        return json.loads(kept.read_text())["golds_at_start"]

    for ours, theirs in zip(records(trained), records(tmp_path), strict=True):
        own = {"rlpr": ("reward/paid", "reward/probability")}
        of_kind = own.get(kind, ("kl/reference", "kl/shaped"))
        for key in ("reward", "loss", "entropy", "grad_norm", *of_kind):
            assert defined(ours[key]) == same(theirs[key], abs=1e-5, rel=1e-4), key
    if kind == "rlpr":
        assert golds(trained) == pytest.approx(golds(tmp_path), abs=1e-6)
        # of 15 problems each process has 8 at the start, and of 16 completions 8 in each step;
        # what is resumed reads no problems again
        of_each = [(trained / f"golds-{n}").read_text().split() for n in (0, 1)]
        assert of_each == [["8"] * (1 + STEPS + STEPS - SAVED)] * 2
        # half are formed, and some are worth more than that
        assert max(record["reward/paid"] for record in records(trained)) > 0.0502
    one = load_file(tmp_path / kind / "model" / FILES[kind])
    for name, tensor in load_file(trained / kind / "model" / FILES[kind]).items():
        torch.testing.assert_close(tensor, one[name], atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    shard()
    for one in json.loads(sys.argv[1]):
        train(one)
