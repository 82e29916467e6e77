"""Trainings of the toy policy sharded by accelerate's FSDP 2: torchrun sharded_run.py JSON.

accelerate shards over GPUs alone. On CPUs the one thing that is changed is that it takes gloo's
processes for such; TRL, accelerate and torch do the rest as ever.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from toy_policy import Bench, adapted, configuration
from toy_run import fixed_completions
from transformers import AutoTokenizer
from trl import GRPOTrainer

from sage_cli.methods.rlpr import ProbabilityReward
from sage_cli.models.loading import load_model
from sage_cli.settings.shipped import shipped
from sage_cli.settings.yaml_files import read_yaml
from sage_cli.training.launch import join_processes

STEPS, SAVED = 4, 2


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
    base, folder = Path(order["base"]), Path(order["folder"])
    ProbabilityReward._chances = noted(folder)
    bench = Bench(base, AutoTokenizer.from_pretrained(base), folder)
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    shard()
    for one in json.loads(sys.argv[1]):
        train(one)
