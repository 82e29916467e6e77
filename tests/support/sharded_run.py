"""Trainings of the toy policy sharded by accelerate's FSDP 2: torchrun sharded_run.py JSON.

accelerate shards over GPUs alone. On CPUs the one thing that is changed is that it takes gloo's
processes for such; TRL, accelerate and torch do the rest as ever.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from toy_policy import Bench, adapted, configuration
from toy_run import fixed_completions
from transformers import AutoTokenizer
from trl import GRPOTrainer

from sage_cli.config.presets import read_yaml, shipped
from sage_cli.models.load import load_model
from sage_cli.training.processes import join_processes

STEPS, SAVED = 4, 2


def sections(tuning: str) -> dict[str, Any]:
    """Of a training whose loss has a reference, and whose completions are fixed."""
    rl = {
        "steps": STEPS,
        "save_every": SAVED,
        "micro_batch": 4,
        "warmup_ratio": 0.0,
        "loss": "dapo",
    }
    return {"rl": rl, "anchor": {"beta": 0.1}, "model": {"tuning": tuning}}


def shard() -> None:
    """What `accelerate launch` with the shipped fsdp2.yaml says to each process."""
    said = read_yaml(shipped("configs/accelerate") / "fsdp2.yaml")["fsdp_config"]
    os.environ |= {name.upper(): str(value) for name, value in said.items()}
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    join_processes()
    if not torch.cuda.is_available():
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def train(order: dict[str, Any]) -> None:
    """Train it whole, then once more from the checkpoint in the middle; note both weights."""
    GRPOTrainer._generate_single_turn = fixed_completions
    base, folder = Path(order["base"]), Path(order["folder"])
    bench = Bench(base, AutoTokenizer.from_pretrained(base), folder)
    config, main = configuration(**sections(order["tuning"])), PartialState().is_main_process

    def run() -> None:
        lora = order["tuning"] == "lora"
        model = adapted(bench, config) if lora else load_model(base, trainable=True)
        bench.run(config, order["tuning"], model=model)
        PartialState().wait_for_everyone()

    run()
    trained = folder / order["tuning"]
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
