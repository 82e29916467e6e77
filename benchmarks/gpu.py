"""What a GPU does with a training step, its memory, the samplers and `tiny`: one page, one JSON.

    python benchmarks/gpu.py --out gpu                 # gpu.md and gpu.json, nine minutes at most
    python benchmarks/gpu.py --device cpu --shape toy  # the same on a toy, to see that it runs

Models are made of random weights at a published model's sizes: nothing is fetched. Each part is a
process of its own, which is ended when the time is over; the page says of each part what it found,
why it was left out, or how it failed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpu_models import ALPHA, RANK, SIZES, Size, question, random_model, tokenizer
from gpu_sampling import transformers_sampler, vllm

from sage_cli.models.memory import TrainingSetup, training_memory

MINUTES = 9.0
FOUND = "found.json"
"""What a part leaves in its folder."""
GOALS = {
    "branch / none": "at most 1.02",
    "sage / TRL": "at most 1.05",
    "sage passk / LLM.generate": "at least 0.95",
}


def step_times(size: Size, folder: Path) -> dict[str, Any]:
    """Seconds a step without a guide, with branch, and by bare TRL; peak memory, and as planned."""
    import torch
    from rl_step import BRANCH, Bench, alternating_seconds, guided
    from step_clock import Clock

    from sage_cli.config.schema import SageConfig
    from sage_cli.guides import NoGuide
    from sage_cli.models.loading import attach_lora
    from sage_cli.problems.problem import Problem
    from sage_cli.settings.model import LoraSection

    class CardBench(Bench):
        """`rl_step`'s bench with a LoRA policy of the size."""

        def __init__(self) -> None:
            self.folder, self.clock = folder, time.perf_counter
            self.records: list[Mapping[str, Any]] = []
            self.tokenizer = tokenizer()
            texts = map(question, range(64))
            self.prompts = [(text, Problem(text, "bench", text, "1")) for text in texts]

        def config(self, steps: int) -> SageConfig:
            """A training that changes nothing, so that every step is alike."""
            return SageConfig.model_validate(
                {
                    "model": {"kind": "pretrained", "path": "random", "dtype": size.dtype},
                    "rl": {
                        "steps": steps,
                        "prompts_per_step": size.prompts,
                        "rollouts_per_prompt": size.rollouts,
                        "micro_batch": size.rollouts,
                        "learning_rate": 1e-30,
                        "optimizer": "adamw",
                        "save_every": 10 * steps,
                        "stop_when_stuck": False,
                    },
                    "rollout": {"max_tokens": size.step_tokens, "min_p": 0},
                    "anchor": {"beta": 0.04},
                }
            )

        def policy(self) -> tuple[Any, None]:
            """A policy whose reference is its own base: the same one every time."""
            gc.collect()  # the last one's trainer
            return attach_lora(random_model(size), LoraSection(rank=RANK, alpha=ALPHA)), None

    bench = CardBench()
    changes = (guided(NoGuide()), guided(BRANCH))
    none_s, branch_s = alternating_seconds(bench, size.pairs, *changes)
    found: dict[str, Any] = {}
    if torch.cuda.is_available():  # from the second step on: the first has the model's making too
        found["peak, GiB"] = max(record["memory/peak_gib"] for record in bench.records[1:])
    clock = Clock(time.perf_counter)
    bench.bare(size.pairs + 2, clock).train()
    medians = [statistics.median(times) for times in (none_s, branch_s, clock.steps_s[1:])]
    adapter = size.shape.adapter_parameters(RANK, LoraSection().targets)
    width = 2 if size.dtype == "bfloat16" else 4
    fused = torch.cuda.is_available()
    how = TrainingSetup(width, width, "adamw", checkpointing=True, adapter=adapter, fused=fused)
    plan = training_memory(
        size.shape,
        how,
        rows=size.rollouts,
        rollouts=size.prompts * size.rollouts,
        prompt=len(question(63)),
        completion=size.step_tokens,
    )
    return found | {
        "planned peak, GiB": plan.peak / 2**30,
        "none, s": medians[0],
        "branch, s": medians[1],
        "TRL, s": medians[2],
        "branch / none": medians[1] / medians[0],
        "sage / TRL": medians[0] / medians[2],
        "completions a step": size.prompts * size.rollouts,
        "tokens generated per s": size.prompts * size.rollouts * size.step_tokens / medians[0],
    }


def tiny(size: Size, folder: Path) -> dict[str, Any]:
    """Seconds of `sage rl --guide branch --measure`, its base included, in a fresh folder."""
    sets = ["sft.steps=100", "evaluation.samples=16", "evaluation.k=1,16", "evaluation.limit=100"]
    if size is SIZES["toy"]:
        sets = ["sft.steps=5", "rl.prompts_per_step=2", "rl.rollouts_per_prompt=2"]
        sets += ["evaluation.samples=2", "evaluation.k=1,2", "evaluation.limit=4"]
    command = [sys.executable, "-m", "sage_cli", "rl", "--guide", "branch", "--steps", "5"]
    command += ["--measure", "--json", "--runs", str(folder / "runs")]
    for setting in sets:
        command += ["--set", setting]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout[-500:] + done.stderr[-500:])
    return {"seconds": time.perf_counter() - began}


PARTS: dict[str, Callable[[Size, Path], dict[str, Any]]] = {
    "step": step_times,
    "transformers sampler": transformers_sampler,
    "tiny": tiny,
    "vllm": vllm,
}


def measured(name: str, asked: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """What a part finds in a process of its own, or why it found nothing."""
    if name == "vllm" and find_spec("vllm") is None:
        return {"left out": "vLLM isn't installed"}
    if seconds <= 0:
        return {"left out": "the time was over"}
    command = [sys.executable, __file__, "--part", name, "--shape", asked.shape]
    hidden = {}
    if asked.device == "cpu":
        hidden = {"CUDA_VISIBLE_DEVICES": "", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, "--out", folder],
            env=os.environ | hidden | {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"},
            stdout=subprocess.DEVNULL,  # engines talk there
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # a part has processes of its own
            process.communicate()
            return {"left out": f"not done within the {seconds:.0f} s that were left"}
        if process.returncode:
            return {"failed": " ".join(said.strip().splitlines()[-1:])[-300:]}
        found: dict[str, Any] = json.loads((Path(folder) / FOUND).read_text(encoding="utf-8"))
    return found


def machine(device: str) -> dict[str, str]:
    """What it ran on."""
    import torch

    on_gpu = device == "cuda" and torch.cuda.is_available()
    name = torch.cuda.get_device_name() if on_gpu else f"CPU ({platform.machine()})"
    return {
        "device": name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def page(found: dict[str, Any], asked: argparse.Namespace) -> str:
    """The results as Markdown."""
    where, size = found["machine"], SIZES[asked.shape]
    lines = [f"# {asked.shape} on {where['device']}", ""]
    lines += [
        f"torch {where['torch']}, Python {where['python']}; {found['seconds']:.0f} s in all, with "
        f"{where['load']} processes wanting a core at the end.",
        "",
        f"Steps of {size.prompts} x {size.rollouts} rollouts of {size.step_tokens:,} new tokens, "
        f"medians over {size.pairs} of each kind, in turns, without the last step and its "
        f"checkpoint; {size.samples} samples of {size.new_tokens:,} new tokens.",
        "",
    ]
    lines += ["| part | what | found | goal |", "|---|---|---|---|"]
    for part, values in found["parts"].items():
        for what, value in values.items():
            shown = f"{value:,.3g}" if isinstance(value, float) and value < 1000 else value
            shown = f"{shown:,.0f}" if isinstance(shown, float) else shown
            lines.append(f"| {part} | {what} | {shown} | {GOALS.get(what, '')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all parts and write page and JSON; exit with 1 where a part failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shape", choices=list(SIZES), default="qwen2.5-1.5b")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--out", type=Path, default=Path("gpu"), help="OUT.md and OUT.json.")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        values = PARTS[asked.part](SIZES[asked.shape], asked.out)
        (asked.out / FOUND).write_text(json.dumps(values), encoding="utf-8")
        return
    import torch

    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU; --device cpu --shape toy shows that this runs")
    began = time.perf_counter()
    parts = {}
    for name in PARTS:
        left_s = 60 * asked.minutes - (time.perf_counter() - began)
        parts[name] = measured(name, asked, left_s)
        print(f"{name}: {json.dumps(parts[name])}", flush=True)
    found = {
        "machine": machine(asked.device),
        "shape": asked.shape,
        "seconds": time.perf_counter() - began,
        "parts": parts,
    }
    asked.out.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    asked.out.with_suffix(".md").write_text(page(found, asked), encoding="utf-8")
    sys.exit(any("failed" in values for values in parts.values()))


if __name__ == "__main__":
    main()
