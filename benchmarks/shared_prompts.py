"""A micro-batch's log-probabilities and gradients: TRL's passes beside those of shared prompts.

    python benchmarks/shared_prompts.py [FOLDER] [--prompt 150 --completion 29 --groups 2 --rows 8]

Without FOLDER the model has random weights in the shape of SmolLM2-135M. The three ways take turns
in one process: TRL's own pass, completions scored alone, and prompts shared as well; medians of
processor seconds, each beside TRL's.

    python benchmarks/shared_prompts.py FOLDER --step [--micro-batch 16 --rounds 2]
    python benchmarks/shared_prompts.py --step --rounds 20

`--step` takes whole steps of `sage` (rollouts, reference, loss, optimiser) in turns with TRL's own
pass and with shared prompts. Without FOLDER they are of the preset `tiny`'s sizes, where there is
next to nothing to share: prompts of seven tokens before completions of 48. With `--bare` the turns
are with TRL's own trainer, which draws rollouts by `generate`, in blocks of a trainer each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from rl_step import Bench, Change, alternating_seconds, report, trainer_seconds
from transformers import AutoModelForCausalLM, LlamaConfig
from trl.trainer.utils import add_fused_lm_head

from sage_cli.config.schema import SageConfig
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.training import guided_trainer
from sage_cli.training.passes import completions_alone
from sage_cli.training.rollouts import sampled_rollouts

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


class LongPrompts(Bench):
    """An adapter on the model of a folder, and prompts of some length."""

    def __init__(self, folder: Path, sizes: argparse.Namespace) -> None:
        super().__init__(folder, sizes)
        whole = self.tokenizer(" ".join(text for text, _ in self.prompts))["input_ids"]
        self.prompts = [
            (self.tokenizer.decode(whole[place : place + sizes.prompt]), problem)
            for place, (_, problem) in enumerate(self.prompts)
        ]

    def config(self, steps: int) -> SageConfig:
        """Return the configuration with the micro-batch and the type of products asked for."""
        config = super().config(steps)
        rl = config.rl.model_copy(update={"micro_batch": self.sizes.micro_batch})
        model = config.model.model_copy(update={"compute_dtype": self.sizes.compute_dtype})
        return config.model_copy(update={"rl": rl, "model": model})

    def policy(self) -> tuple[Any, Path | None]:
        """Return the model with a fresh adapter, which is its own reference."""
        model = load_model(self.base, dtype="float32")
        lora = self.config(1).model.lora.model_copy(update={"rank": 16, "alpha": 32})
        return attach_lora(model, lora), None


def compare_steps(asked: argparse.Namespace) -> None:
    """Print the time of a step with shared prompts over that of TRL's own passes."""

    def passes(way: Any) -> Change:
        return lambda _: setattr(guided_trainer, "completions_alone", way)

    asked.prompts, asked.rollouts, asked.clock = asked.groups, asked.rows, "cpu"
    asked.tokens, asked.model = asked.completion, asked.folder and Path(asked.folder)
    with tempfile.TemporaryDirectory() as folder:
        bench = (LongPrompts if asked.folder else Bench)(Path(folder), asked)
        parameters = SamplingParameters.from_section(bench.config(1).rollout)
        sample = sampled_rollouts(parameters, 1, bench.tokenizer)

        def shared(trainer: Any) -> None:
            trainer.sample_rollouts = sample
            passes(completions_alone)(trainer)

        def sage(*arguments: Any) -> Any:
            trainer = bench.sage(*arguments)
            trainer.sample_rollouts = sample
            return trainer

        if asked.bare:
            base, ours = trainer_seconds(bench, asked.rounds, bench.bare, sage, block_steps=3)
            print(json.dumps(report("sage / TRL", base, ours)))
            return
        apart = passes(lambda *_, **__: nullcontext())
        seconds = alternating_seconds(bench, asked.rounds, shared, apart)
    print(json.dumps(report("prompts shared / apart", *reversed(seconds))))


def main() -> None:
    """Print a line per way, without and with gradients; or of whole steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?")
    sizes = {"prompt": 150, "completion": 29, "groups": 2, "rows": 8, "rounds": 5}
    for name, usual in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--compute-dtype", choices=["float32", "bfloat16"], default="float32")
    asked = parser.parse_args()
    if asked.step:
        compare_steps(asked)
        return
    model, rows = adapted_model(asked.folder), asked.groups * asked.rows
    prompts = torch.randint(5, 1000, (asked.groups, asked.prompt)).repeat_interleave(asked.rows, 0)
    ids = torch.cat([prompts, torch.randint(5, 1000, (rows, asked.completion))], dim=1)
    labels = ids.clone()
    labels[:, : asked.prompt] = -100
    ways = {
        "TRL": nullcontext,
        "completions alone": lambda: completions_alone(model, asked.completion),
        "prompts shared": lambda: completions_alone(model, asked.completion, share=True),
    }

    def seconds(way: str, *, gradient: bool) -> float:
        began = time.process_time()
        with ways[way](), torch.set_grad_enabled(gradient):
            output = model(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                labels=labels,
                fused_lm_head=True,
            )
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
