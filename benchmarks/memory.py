"""Planned against measured memory: the arithmetic of `--gpu` beside real trainings on a CPU.

    python benchmarks/memory.py [tiny ...]

A process trains two steps of RL from a base of few warm-up steps, after one small training that
loads every library. What it grew by at its peak is laid beside the planned peak, and the whole
process beside plan and libraries. Linux; malloc is told to give memory back at once, so that what
is resident is what is in use.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from peak import peak_mb

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.methods.loop import batch_of
from sage_cli.models.memory import training_memory
from sage_cli.models.memory_estimates import how_trained
from sage_cli.models.shape import shape_of
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent

ALLOWED = 0.15
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
SMALL = {"rl": {"prompts_per_step": 1, "rollouts_per_prompt": 2, "steps": 1}}
STEPS = 2
MB = 2**20


def configuration(preset: str, root: Path, **sections: dict[str, object]) -> SageConfig:
    """The preset with a base of 20 warm-up steps and a training of two."""
    flags = {"sft": {"steps": 20}, "rl": {"steps": STEPS}, "run": {"root": root}}
    for name, settings in sections.items():
        flags[name] = {**flags.get(name, {}), **settings}
    return load((preset,), flags).config


def planned_mb(config: SageConfig, prompt: int) -> float:
    """The peak that the plan says, for prompts of so many tokens."""
    config, shape = config, shape_of(config.model)
    assert shape is not None
    batch = batch_of(config.rl, 1)
    found = training_memory(
        shape,
        how_trained(config, shape, on_gpu=False),
        rows=batch.micro_batch,
        rollouts=batch.micro_batch * batch.accumulation,
        prompt=prompt,
        completion=config.rollout.max_tokens,
    )
    return found.peak / MB


def measure(preset: str, root: Path) -> None:
    """Train, and print what the process was before and at its peak, in MB."""
    from sage_cli.training.prompt_order import training_order
    from sage_cli.training.run import RlTraining

    RlTraining.of(configuration(preset, root, **SMALL)).execute(Silent())
    gc.collect()
    before_mb = resident_mb()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    config = configuration(preset, root)
    training = RlTraining.of(config)
    training.execute(Silent())
    after_mb = peak_mb()
    config = training.config
    tokenizer = training.start.policy.tokenizer
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    problems = load_training_problems(config.data)
    taken = {problems[row].question for row in training_order(len(problems), config.rl)}
    prompt = max(len(tokenizer(template.render(text))["input_ids"]) for text in taken)
    print(json.dumps({"before": before_mb, "peak": after_mb, "prompt": prompt}))


def resident_mb() -> float:
    """What this process holds now, in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def main() -> None:
    """Print a table; exit with 1 where something is further from its plan than allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=["tiny"])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.presets[0], asked.measure)
        return
    print("| preset | prompt | planned, MB | measured | ratio | process / plan and libraries |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for preset in asked.presets:
        with tempfile.TemporaryDirectory() as root:
            command = [sys.executable, __file__, preset, "--measure", root]
            done = subprocess.run(
                command, env=os.environ | MALLOC, stdout=subprocess.PIPE, text=True, check=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            plan = planned_mb(configuration(preset, Path(root)), found["prompt"])
        grown = found["peak"] - found["before"]
        whole = found["peak"] / (plan + found["before"])
        worst = max(worst, abs(whole - 1), abs(plan / grown - 1))
        print(
            f"| {preset} | {found['prompt']} | {plan:,.0f} | {grown:,.0f} | {plan / grown:.2f} "
            f"| {whole:.2f} |"
        )
    sys.exit(worst > ALLOWED)


if __name__ == "__main__":
    main()
