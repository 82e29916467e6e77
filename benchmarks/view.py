"""How fast `sage view` shows much: 1,000 runs, and 10 policies with 200 problems x 4,096 samples.

    python benchmarks/view.py FOLDER [--runs 1000] [--policies 10] [--samples 4096]

FOLDER is made up once (some minutes) and kept. The server is a process of its own; the first paint
is Chromium's own time from the beginning of the navigation to the first row of the table, and its
CPU the server's from its start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from browser import Browser, chromium, served

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import grader_for, load_benchmarks
from sage_cli.evaluation.samples import PolicySamples
from sage_cli.models.policy import Policy
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.files import write_json, write_object
from sage_cli.store.run import Run, Runs
from sage_cli.store.sample_parts import write_part

PART, ROUNDS = 512, 7
STEPS = 40


def main() -> None:
    """Print a row for each question: the first time and the median of the later ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--policies", type=int, default=10)
    parser.add_argument("--samples", type=int, default=4096)
    given = parser.parse_args()
    root = given.folder / "runs"
    measured = [f"rl-measured-{number:08x}" for number in range(given.policies)]
    if not root.is_dir():
        made(root, given.runs, given.policies, given.samples)
    print(f"{'what':40s} {'first ms':>9s} {'later ms':>9s} {'CPU ms':>7s} {'server MB':>10s}")
    with served(root) as (address, process):
        report_paints(address, process)
    with served(root) as (address, process):  # another one: an address lets one client in
        report_answers(address, process, measured)


def report_paints(address: str, process: int) -> None:
    """Let Chromium open the page of a server that just began, and open it again."""
    with chromium() as browser:
        browser.size(1280)
        first_ms = paint(browser, address)
        cpu_ms = 1000 * spent_s(process)
        later = [paint(browser, address) for _ in range(1, ROUNDS)]
    row = f"{'first paint of the runs':40s} {first_ms:9.0f} {median(later):9.0f} {cpu_ms:7.0f}"
    print(f"{row} {memory(process):10.0f}", flush=True)


def report_answers(address: str, process: int, policies: list[str]) -> None:
    """Ask the server what the page's topics ask."""
    with httpx.Client(timeout=600, follow_redirects=True) as client:
        client.get(address)
        base = address.split("?")[0] + "api/"
        problem = ask(client, base, "problems", policies=policies[0])[1]["problems"][100]["problem"]
        one, own = {"policy": policies[1]}, {"policy": policies[1], "problem": problem}
        questions = {
            "runs": ("runs", {}),
            "samples: the first page": ("samples", one),
            "samples: right ones below 60 tokens": (
                "samples", {**one, "grade": "right", "longest": "60"}
            ),
            "samples: truncated, page 1,000": (
                "samples", {**one, "truncated": "1", "offset": "1000"}
            ),
            "samples: text within a problem": ("samples", {**own, "text": "9+9"}),
            "problem: 10 policies side by side": (
                "problem", {"policies": ",".join(policies), "problem": problem}
            ),
            "problems of 10 policies": ("problems", {"policies": ",".join(policies)}),
            "pass@k of 10 policies": ("passk", {"policies": ",".join(policies)}),
        }  # fmt: skip
        for title, (name, values) in questions.items():
            first_ms, _ = ask(client, base, name, **values)
            before_s = spent_s(process)
            times = [ask(client, base, name, **values)[0] for _ in range(ROUNDS)]
            cpu_ms = 1000 * (spent_s(process) - before_s) / ROUNDS
            row = f"{title:40s} {first_ms:9.0f} {median(times):9.0f} {cpu_ms:7.0f}"
            print(f"{row} {memory(process):10.0f}", flush=True)


def ask(
    client: httpx.Client, base: str, name: str, **values: str
) -> tuple[float, dict[str, object]]:
    """Milliseconds until an answer is there, and the answer."""
    began = time.perf_counter()
    answer = client.get(base + name, params=values)
    spent_ms = 1000 * (time.perf_counter() - began)
    answer.raise_for_status()
    return spent_ms, answer.json()


def paint(browser: Browser, address: str) -> float:
    """Milliseconds from the beginning of the navigation to the first row of the table."""
    seen = (
        "const done = arguments[0]; const look = () => document.querySelector('tbody tr') ?"
        "requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5); look()"
    )
    browser.driver.get(address)
    return float(browser.driver.execute_async_script(seen))


def spent_s(process: int) -> float:
    """Processor seconds of a process so far: what other programs do hardly changes them."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Resident megabytes of a process now."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def made(root: Path, runs: int, policies: int, samples: int) -> None:
    """Write runs with records, and for some of them graded samples."""
    settings = {"evaluation": {"benchmark": "arithmetic", "samples": samples, "k": "1,64"}}
    config = load(("tiny",), settings).config
    generator = np.random.default_rng(0)
    for number in range(runs):
        is_measured = number < policies
        label = "measured" if is_measured else "other"
        run = Run(root / f"rl-{label}-{number:08x}")
        write_run(run, config.model_dump(mode="json"), number)
        if is_measured:
            print(f"sampling {run.id}", flush=True)
            write_samples(root, Runs(root).find(run.id), config, generator)


def write_run(run: Run, settings: dict[str, object], number: int) -> None:
    """Write a finished run's files."""
    run.model.mkdir(parents=True)
    when = f"2026-11-{1 + number % 28:02d}T{number % 24:02d}:{number % 60:02d}:00.000+00:00"
    write_json(run.folder / "config.json", settings)
    write_object(
        run.folder / "manifest.json",
        {"id": run.id, "identity": None, "status": "finished", "kind": "rl", "parent": None,
         "created": when, "started": when, "seconds": 60.0, "seed": 1, "template": None,
         "command": "sage rl", "host": "here", "commit": "0" * 12},
    )  # fmt: skip
    records = [
        {"step": step, "of": STEPS, **{f"figure/{one}": step / (one + 1) for one in range(30)}}
        for step in range(1, STEPS + 1)
    ]
    lines = "".join(json.dumps({**one, "reward": one["step"] / STEPS}) + "\n" for one in records)
    (run.folder / "metrics.jsonl").write_text(lines)
    (run.model / "config.json").write_text("{}")
    (run.model / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
    (run.model / "model.safetensors").write_bytes(run.id.encode())


def write_samples(root: Path, run: Run, config: SageConfig, generator: np.random.Generator) -> None:
    """Write the parts and grades of a policy's samples."""
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    samples = PolicySamples.from_config(Policy.of_run(run), config, root).at(0)
    samples.folder.mkdir(parents=True)
    write_json(samples.folder / "set.json", samples.identity)
    with grader_for("arithmetic", config.grading, config.prompt) as grader:
        grades = GradeStore(samples, grader.identity.mapping())
    number = 0
    for problem in benchmark.problems:
        share = generator.beta(0.4, 1.2)
        for start in range(0, config.evaluation.samples, PART):
            drawn = generator.integers(0, 10_000, (PART, 4)).tolist()
            rows = [
                Completion(
                    problem.id, start + i, 0,
                    f"<start_working_out>S:{a}*{b}={c};{d}+9={d + 9}<SOLUTION>{c}</SOLUTION>",
                    30 + a % 60, "length" if a % 100 == 0 else "stop", tuple(range(40)),
                )
                for i, (a, b, c, d) in enumerate(drawn)
            ]  # fmt: skip
            part = write_part(samples.folder, "0" * 8, number, rows, {"engine": "made up"}).name
            number += 1
            right = generator.random(PART) < share
            stored = [
                Completion(one.problem_id, one.index, 0, one.text, one.tokens, "stop", part=part)
                for one in rows
            ]
            grades.add(
                [
                    (one, "right" if good else "wrong", "1")
                    for one, good in zip(stored, right.tolist(), strict=True)
                ]
            )
    grades.flush()
    samples.inventory()  # writes the index, as a writer does
    write_json(
        run.folder / "evaluations" / "arithmetic.json",
        {"pass@1": 0.25, "problems": len(benchmark.problems), "seeds": 1, "temperature": 1.0,
         "samples": config.evaluation.samples, "grading": config.grading.mode,
         "benchmark": "arithmetic", "content": "arithmetic"},
    )  # fmt: skip


if __name__ == "__main__":
    main()
