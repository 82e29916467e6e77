"""What `sage passk` takes over millions of stored and graded completions: nothing is sampled.

    python benchmarks/completions.py FOLDER [--completions 10000000]

FOLDER is made up once and kept: a run that was measured on arithmetic, whose problems share the
completions. The first command reads every part and writes the index; the second finds it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import grader_for, load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.policy import Policy
from sage_cli.store.annotations import SCHEMAS, GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.json_files import write_json, write_object
from sage_cli.store.run import Run, Runs
from sage_cli.store.sample_parts import write_part
from sage_cli.store.tables import write_sealed

PART = 10_000
"""Rows of a part."""


def main() -> None:
    """Print seconds and peak memory of the first and of the second command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--completions", type=int, default=10_000_000)
    given = parser.parse_args()
    root, name = given.folder / "runs", "rl-many-00000000"
    if not root.is_dir():
        make_run(root, name, given.completions)
    each = given.completions // len(problems(settings(1)))
    program = str(Path(sys.executable).with_name("sage"))
    words = [program, "passk", name, "--k", "1..256", "--n", str(each), "--runs", str(root)]
    for which in ("first", "again"):
        began = time.perf_counter()
        process = subprocess.Popen([*words, "--json"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s, cpu_s = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
        print(
            f"{which}: exit {os.waitstatus_to_exitcode(status)}, {given.completions:,} samples, "
            f"{wall_s:.1f} s, {cpu_s:.1f} s of processor time, {usage.ru_maxrss // 1024} MB",
            flush=True,
        )


def settings(samples: int) -> SageConfig:
    """Return the configuration of a measurement with so many samples of each problem."""
    evaluation = {"benchmark": "arithmetic", "samples": samples, "k": "1,64"}
    return load(("tiny",), {"evaluation": evaluation}).config


def problems(config: SageConfig) -> list[str]:
    """Return the ids of the benchmark's problems."""
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    return list(benchmark.golds)


def write_run(run: Run, stored: dict[str, object]) -> None:
    """Write the files of a finished run whose model is never loaded."""
    run.model.mkdir(parents=True)
    write_json(run.folder / "config.json", stored)
    when = "2026-11-01T00:00:00.000+00:00"
    manifest = {
        "id": run.id,
        "identity": None,
        "status": "finished",
        "kind": "rl",
        "parent": None,
        "created": when,
        "started": when,
        "seconds": 60.0,
        "seed": 1,
        "template": None,
        "command": "sage rl",
        "host": "here",
        "commit": "0" * 12,
    }
    write_object(run.folder / "manifest.json", manifest)
    (run.model / "config.json").write_text("{}")
    (run.model / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
    (run.model / "model.safetensors").write_bytes(b"never loaded")


def make_run(root: Path, name: str, completions: int) -> None:
    """Write a run's files, the parts of its samples, and their grades."""
    ids = problems(settings(1))
    each = completions // len(ids)
    config = settings(each)
    write_run(Run(root / name), config.model_dump(mode="json"))
    policy = Policy.of_run(Runs(root).find(name))
    samples = PolicySamples.from_config(policy, config, root).at(0)
    samples.folder.mkdir(parents=True)
    write_json(samples.folder / "set.json", samples.identity)
    with grader_for("arithmetic", config.grading, config.prompt) as grader:
        author = grader.identity.mapping()
        folder = GradeStore(samples, author).folder
    generator, tables, number = np.random.default_rng(0), [], 0
    for id_ in ids:
        share = generator.beta(0.4, 1.2)
        for start in range(0, each, PART):
            count = min(PART, each - start)
            texts = [f"<start_working_out>S:{n}<SOLUTION>{n % 97}</SOLUTION>" for n in range(count)]
            rows = [
                Completion(id_, start + n, 0, text, 30 + n % 60, "stop")
                for n, text in enumerate(texts)
            ]
            part = write_part(samples.folder, "0" * 8, number, rows, {"engine": "made up"}).name
            status = np.where(generator.random(count) < share, "right", "wrong")
            answers = [str(n % 97) for n in range(count)]
            columns = {
                "part": [part] * count,
                "problem_id": [id_] * count,
                "index": range(start, start + count),
                "status": status.tolist(),
                "extracted": answers,
            }
            tables.append(pa.table(columns, schema=SCHEMAS["grades"]))
            number += 1
    folder.mkdir(parents=True)
    write_json(folder / "grader.json", author)
    grades = pa.concat_tables(tables).unify_dictionaries()
    write_sealed(folder / f"{secrets.token_hex(8)}.grades", grades)


if __name__ == "__main__":
    main()
