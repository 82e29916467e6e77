"""`sage passk` end to end beside the loop that most evaluations are written as.

    python benchmarks/passk.py MODEL [--preset tiny] [--problems 60] [--samples 256] [--memory]

Both load the model, draw problems x samples completions at the preset's temperature, grade them
and compute pass@k for every k. The naive loop goes problem by problem, calls `generate` with
num_return_sequences=64 as often as needed and runs Math-Verify in the main thread. Floor: the
model's multiplications for the tokens drawn, at the speed that a plain matrix product reaches in
the same run. `--memory` measures the peak of fresh processes at that size and at ten times it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from math_verify import parse, verify
from peak import peak_mb

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import benchmark_problems
from sage_cli.evaluation.measure import measure
from sage_cli.metrics import curve, pass_at_k
from sage_cli.models.load import load_model, load_tokenizer
from sage_cli.policies.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.store.parts import read_part

ROWS = 64


class Clock:
    """Wall and processor seconds, children's included, of a block."""

    wall_s = cpu_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the block's time in."""
        wall_s, cpu_s = time.perf_counter(), _cpu_s()
        yield
        self.wall_s += time.perf_counter() - wall_s
        self.cpu_s += _cpu_s() - cpu_s


def _cpu_s() -> float:
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def naive(
    model_path: str, config: SageConfig, problems: list[Problem], generating: Clock
) -> tuple[np.ndarray[Any, Any], int]:
    """pass@k for k = 1..n by the plain loop, and the number of tokens drawn."""
    model, tokenizer = load_model(model_path).eval(), load_tokenizer(model_path)
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    sampling, n = config.sampling, config.evaluation.samples
    stop = tokenizer.encode(template.stop or "", add_special_tokens=False)
    ends = [tokenizer.eos_token_id, *(stop if len(stop) == 1 else [])]
    rights_P, tokens = [], 0
    for problem in problems:
        prompt = tokenizer(
            template.render(problem.question), return_tensors="pt", add_special_tokens=False
        )
        rights = 0
        for _ in range(n // ROWS):
            with generating.running():
                output_BT = model.generate(
                    input_ids=prompt.input_ids,
                    attention_mask=prompt.attention_mask,
                    do_sample=True,
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    top_k=sampling.top_k,
                    min_p=sampling.min_p or None,
                    max_new_tokens=sampling.max_tokens,
                    num_return_sequences=ROWS,
                    eos_token_id=ends,
                    pad_token_id=tokenizer.pad_token_id,
                )
                new_BT = output_BT[:, prompt.input_ids.shape[1] :]
                tokens += int((new_BT != tokenizer.pad_token_id).sum())
                texts = tokenizer.batch_decode(new_BT, skip_special_tokens=True)
            for text in texts:
                answer = text.partition(config.prompt.answer_open)[2]
                answer = answer.partition(config.prompt.answer_close)[0]
                rights += verify(parse(f"${problem.gold}$"), parse(f"${answer}$"))
        rights_P.append(rights)
    ks = range(1, n + 1)
    return np.array([np.mean([pass_at_k(n, c, k) for c in rights_P]) for k in ks]), tokens


def ours(
    model_path: str, config: SageConfig, problems: list[Problem]
) -> tuple[np.ndarray[Any, Any], int]:
    """The same through sage's workflow, samples stored; config.run.root is a fresh folder."""
    benchmark, n = config.evaluation.benchmark, config.evaluation.samples
    measured = measure(Policy(model_path), config, benchmark, problems, 0, Silent())
    mean_K = curve([measured.counts], tuple(range(1, n + 1))).mean_K
    parts = config.run.root.glob("samples/*/part-*.parquet")
    return mean_K, sum(pc.sum(read_part(part, ["tokens"])["tokens"]).as_py() for part in parts)


def product_speed() -> float:
    """Floating-point operations per second of a 1024-cubed matrix product, the best of ten."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best_s = min(_timed(lambda: a @ b) for _ in range(10))
    return 2 * 1024**3 / best_s


def _timed(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def compare(model_path: str, config: SageConfig) -> None:
    """Run both and print the table."""
    problems = benchmark_problems(config, config.evaluation.benchmark)
    clocks = {"naive loop": Clock(), "of it generating": Clock(), "sage": Clock()}
    with clocks["sage"].running():
        our_K, our_tokens = ours(model_path, config, problems)
    with clocks["naive loop"].running(), torch.inference_mode():
        naive_K, naive_tokens = naive(model_path, config, problems, clocks["of it generating"])
    flops = product_speed()
    parameters = sum(p.numel() for p in load_model(model_path).parameters())
    floor_s = 2 * parameters * our_tokens / flops
    print(
        f"{len(problems)} problems x {config.evaluation.samples} samples, {parameters} parameters"
    )
    for name, clock in clocks.items():
        tokens = our_tokens if name == "sage" else naive_tokens
        print(
            f"{name:18s} {clock.wall_s:7.1f} s wall {clock.cpu_s:7.1f} s cpu "
            f"{tokens:8d} tokens {tokens / clock.wall_s:8.0f} tokens/s"
        )
    ratio = clocks["naive loop"].wall_s / clocks["sage"].wall_s
    print(f"sage is {ratio:.2f} times as fast; floor {floor_s:.1f} s at {flops / 1e9:.0f} GFLOP/s")
    print(f"distance to the floor: {clocks['sage'].wall_s / floor_s:.1f} times")
    shown = [k for k in (1, 8, 64, 256) if k <= len(our_K)]
    print("pass@k sage ", {k: round(float(our_K[k - 1]), 3) for k in shown})
    print("pass@k naive", {k: round(float(naive_K[k - 1]), 3) for k in shown})


def memory(arguments: list[str], problems: int) -> None:
    """Peak resident memory of fresh processes at `problems` and ten times as many."""
    for size in (problems, 10 * problems):
        done = subprocess.run(
            [sys.executable, __file__, *arguments, "--problems", str(size), "--peak"],
            capture_output=True,
            text=True,
            check=True,
        )
        print(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--benchmark")
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = load(
            [given.preset],
            {
                "run": {"root": folder},
                "evaluation": {
                    "samples": given.samples,
                    "limit": given.problems,
                    "benchmark": given.benchmark,
                },
                "data": {"arithmetic": {"held_out": given.problems}},
            },
        ).config
        if given.memory:
            arguments = [given.model, "--preset", given.preset, "--samples", str(given.samples)]
            arguments += ["--benchmark", config.evaluation.benchmark]
            memory(arguments, given.problems)
        elif given.peak:
            problems = benchmark_problems(config, config.evaluation.benchmark)
            _, tokens = ours(given.model, config, problems)
            print(json.dumps({"problems": len(problems), "tokens": tokens, "peak_mb": peak_mb()}))
        else:
            compare(given.model, config)


if __name__ == "__main__":
    main()
