"""`sage passk` as it is typed, beside the loops that most evaluations are written as.

    python benchmarks/passk.py MODEL [--preset tiny] [--problems 60] [--samples 256] [--rounds 3]
    python benchmarks/passk.py MODEL --loops whole,padded
    python benchmarks/passk.py MODEL --memory

Each is a process of its own in the environment as it is: it starts, loads the model, draws
problems x samples completions at the preset's settings, grades them and computes pass@k for every
k up to the number of samples. They run in turns; the table shows medians. The loops are those of
simple_loops.py. Floor: the model's multiplications for the tokens drawn, at the speed of a plain
matrix product, beside the same for the tokens that differ: samples that begin alike need the
model once for what they share. `--memory` shows the peak at that size and at ten times it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from peak import Spent, spent

LOOPS = "whole,quarters,padded"


def sage_command(given: argparse.Namespace, root: Path, problems: int) -> list[str]:
    """What a user types, with a fresh folder for what it stores."""
    words = f"passk {given.model} --preset {given.preset} --k 1..{given.samples} --json"
    words += f" --n {given.samples} --limit {problems} --set data.arithmetic.held_out={problems}"
    chosen = ["--benchmark", given.benchmark] if given.benchmark else []
    sage = str(Path(sys.executable).with_name("sage"))
    return [sage, *words.split(), *chosen, "--runs", str(root)]


def write_task(given: argparse.Namespace, file: Path) -> dict[str, Any]:
    """Prompts, golds and settings for the loops, as `sage` would have them."""
    from sage_cli.config.load import load
    from sage_cli.models.tokenizer import load_tokenizer
    from sage_cli.problems.load import load_problems
    from sage_cli.problems.template import PromptTemplate

    evaluation = {"limit": given.problems, "benchmark": given.benchmark}
    data = {"arithmetic": {"held_out": given.problems}}
    config = load([given.preset], {"evaluation": evaluation, "data": data}).config
    asked = config.evaluation
    problems = load_problems(asked.benchmark, config.data, asked.fields, asked.limit)
    template = PromptTemplate.from_section(config.prompt, load_tokenizer(given.model))
    sampling = config.sampling
    task = {
        "prompts": [template.render(problem.question) for problem in problems],
        "golds": [problem.gold for problem in problems],
        "answer_open": config.prompt.answer_open,
        "answer_close": config.prompt.answer_close,
        "samples": given.samples,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p or None,
            "max_new_tokens": sampling.max_tokens,
        },
    }
    file.write_text(json.dumps(task), encoding="utf-8")
    return task


def compare(given: argparse.Namespace, folder: Path) -> None:
    """Run all in turns and print the table."""
    task = write_task(given, folder / "task.json")
    loops = str(Path(__file__).with_name("simple_loops.py"))
    took: dict[str, list[Spent]] = {name: [] for name in ("sage", *given.loops)}
    for turn in range(given.rounds):
        for name in took:
            command = [sys.executable, loops, name, given.model, str(folder / "task.json")]
            if name == "sage":
                command = sage_command(given, folder / f"runs-{turn}", given.problems)
            took[name].append(spent(command))
            print(f"{turn + 1}/{given.rounds} {name}: {took[name][-1].wall_s:.1f} s", flush=True)
    print(f"\n{len(task['prompts'])} problems x {given.samples} samples; medians of {given.rounds}")
    ours_s = median(one.wall_s for one in took["sage"])
    for name, runs in took.items():
        wall_s = median(one.wall_s for one in runs)
        print(
            f"{name:9s} {wall_s:7.1f} s wall {median(one.cpu_s for one in runs):7.1f} s cpu "
            f"{max(one.peak_mb for one in runs):6.0f} MB {wall_s / ours_s:6.2f} x sage"
        )
    for name in given.loops:
        told = json.loads(took[name][-1].output.splitlines()[-1])
        ks = [k for k in (1, 8, 64, 256) if k <= given.samples]
        shown = {k: round(told["means"][k - 1], 3) for k in ks}
        print(f"{name:9s} {told['tokens']} tokens, pass@k {shown}")
    floor(given.model, folder / "runs-0")


def floor(model_path: str, root: Path) -> None:
    """Print the seconds that the multiplications alone need."""
    import torch

    from sage_cli.models.loading import load_model
    from sage_cli.models.tokenizer import load_tokenizer
    from sage_cli.store.sample_parts import read_part

    model, tokenizer = load_model(model_path), load_tokenizer(model_path)
    parameters = sum(weight.numel() for weight in model.parameters())
    rows = [
        row
        for part in sorted(root.glob("samples/*/part-*.parquet"))
        for row in read_part(part, ["problem_id", "text", "tokens"]).to_pylist()
    ]
    ids = tokenizer([row["text"] for row in rows], add_special_tokens=False)["input_ids"]
    drawn = sum(row["tokens"] for row in rows)
    different = prefixes(zip((row["problem_id"] for row in rows), ids, strict=True))
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best_s = float("inf")
    for _ in range(10):
        start_s = time.perf_counter()
        a @ b
        best_s = min(best_s, time.perf_counter() - start_s)
    per_token_s = 2 * parameters / (2 * 1024**3 / best_s)
    print(
        f"sage      {drawn} tokens, {different} of them different; {parameters} parameters; "
        f"floor {drawn * per_token_s:.1f} s for all, {different * per_token_s:.1f} s for those"
    )


def prefixes(answers: Iterable[tuple[str, list[int]]]) -> int:
    """How many different beginnings there are, over all problems."""
    nodes: dict[tuple[object, int], int] = {}
    for problem, ids in answers:
        node: object = problem
        for token in ids:
            node = nodes.setdefault((node, token), len(nodes))
    return len(nodes)


def memory(given: argparse.Namespace, folder: Path) -> None:
    """Print the peak memory of `sage passk` at two sizes."""
    for problems in (given.problems, 10 * given.problems):
        used = spent(sage_command(given, folder / str(problems), problems))
        print(f"{problems} problems: {used.peak_mb:.0f} MB peak, {used.wall_s:.1f} s")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--benchmark")
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", type=lambda names: names.split(","), default=LOOPS)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (memory if given.memory else compare)(given, Path(folder))


if __name__ == "__main__":
    main()
