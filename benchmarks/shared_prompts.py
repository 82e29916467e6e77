"""A micro-batch's log-probabilities and gradients: TRL's passes beside those of shared prompts.

    python benchmarks/shared_prompts.py [FOLDER] [--prompt 150 --completion 29 --groups 2 --rows 8]

Without FOLDER the model has random weights in the shape of SmolLM2-135M. The three ways take turns
in one process: TRL's own pass, completions scored alone, and prompts shared as well; medians of
processor seconds, each beside TRL's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import nullcontext
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig
from trl.trainer.utils import add_fused_lm_head

from sage_cli.training.shared_prompts import completions_alone

SMOLLM2_135M = LlamaConfig(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True,
)  # fmt: skip


def adapted_model(folder: str | None) -> Any:
    """The model with fresh LoRA adapters under TRL's fused head."""
    torch.manual_seed(0)
    model = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        if folder
        else AutoModelForCausalLM.from_config(SMOLLM2_135M)
    )
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return get_peft_model(model, LoraConfig(r=16, target_modules="all-linear")).train()


def main() -> None:
    """Print a line per way, without and with gradients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?")
    sizes = {"prompt": 150, "completion": 29, "groups": 2, "rows": 8, "rounds": 5}
    for name, usual in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    model, rows = adapted_model(asked.folder), asked.groups * asked.rows
    prompts = torch.randint(5, 1000, (asked.groups, asked.prompt)).repeat_interleave(asked.rows, 0)
    ids = torch.cat([prompts, torch.randint(5, 1000, (rows, asked.completion))], dim=1)
    labels = ids.clone()
    labels[:, : asked.prompt] = -100
    names = [row // asked.rows for row in range(rows)]
    ways = {
        "TRL": nullcontext,
        "completions alone": lambda: completions_alone(model, asked.completion),
        "prompts shared": lambda: completions_alone(model, asked.completion, names),
    }

    def seconds(way: str, *, gradient: bool) -> float:
        began = time.process_time()
        with ways[way](), torch.set_grad_enabled(gradient):
            output = model(
                input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels,
                fused_lm_head=True,
            )  # fmt: skip
        if gradient:
            output.log_probs.sum().backward()
        return time.process_time() - began

    for gradient in (False, True):
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(asked.rounds):
            for way in ways:
                times[way].append(seconds(way, gradient=gradient))
        middle = {way: statistics.median(values) for way, values in times.items()}
        for way, median in middle.items():
            pass_ = "loss and gradient" if gradient else "reference"
            ratio = median / middle["TRL"]
            print(f"{pass_:18} {way:18} {median:7.2f} s of processor time, {ratio:.2f} of TRL's")


if __name__ == "__main__":
    main()
