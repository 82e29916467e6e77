"""The counts that `sage samples import` reads, beside the scores of the programs that wrote them.

    python benchmarks/imported/compare.py --work /tmp/imported

Each program is installed in an environment of its own below `--work` and evaluates a toy model:
lm-eval and lighteval a tiny random Llama, Inspect its mock model. Nothing is asked of the
network but packages. Printed are each program's score and the share of right samples that is read;
the exit status is 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "lm-eval": ["lm-eval[hf]==0.4.13"],
    # later releases of xxhash take bytes alone, and lighteval 0.13 gives it texts
    "lighteval": ["lighteval==0.13.0", "xxhash==3.5.0"],
    "inspect": ["inspect-ai==0.3.285"],
}


def environment(work: Path, program: str, python: str) -> Path:
    """The folder of a program's executables, installed where they aren't yet."""
    folder = work / "environments" / program
    if not (folder / "done").exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "-q", *PACKAGES[program]], check=True)
        (folder / "done").touch()
    return folder / "bin"


def said(work: Path, *command: object) -> list[dict[str, object]]:
    """Run a command in `work`; the lines that it prints as JSON objects."""
    variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*map(str, command)],
        cwd=work,
        env={**os.environ, **variables},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"file"')]


def of_lm_eval(work: Path, programs: Path) -> tuple[Path, float]:
    """lm-eval's file of samples, and its score."""
    said(
        work,
        programs / "lm-eval",
        "run",
        "--model",
        "hf",
        "--model_args",
        "pretrained=acme/toy",
        "--tasks",
        "toy",
        "--include_path",
        HERE,
        "--device",
        "cpu",
        "--batch_size",
        8,
        "--log_samples",
        "--output_path",
        "lm-eval",
        "--seed",
        3,
    )
    (results,) = (work / "lm-eval").glob("*/results_*.json")
    (samples,) = (work / "lm-eval").glob("*/samples_toy_*.jsonl")
    return samples, json.loads(results.read_text())["results"]["toy"]["exact_match,none"]


def evaluated(work: Path) -> Iterator[tuple[str, Path, float]]:
    """Each program's name, a file that it wrote, and its own score of it."""
    inspect = environment(work, "inspect", sys.executable)
    for one in said(work, inspect / "python", HERE / "inspect_toy.py"):
        yield "inspect", work / str(one["file"]), float(str(one["score"]))
    lm_eval = environment(work, "lm-eval", sys.executable)
    (work / "acme").mkdir()
    said(work, lm_eval / "python", HERE / "toy_model.py", "acme/toy")
    samples, score = of_lm_eval(work, lm_eval)
    yield "lm-eval", samples, score
    lighteval = environment(work, "lighteval", sys.executable)
    for one in said(work, lighteval / "python", HERE / "lighteval_toy.py"):
        yield "lighteval", work / str(one["file"]), float(str(one["score"]))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    work = asked.work.resolve()
    (work / "environments").mkdir(parents=True, exist_ok=True)
    for old in work.iterdir():
        if old.is_dir() and old.name != "environments":
            shutil.rmtree(old)
    (work / "toy-data").mkdir()
    rows = [{"question": f"{a}+{b}=?\n", "gold": str(a + b)} for a in range(5) for b in range(5)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (work / "toy-data/test.jsonl").write_text(text)
    equal = True
    for number, (program, file, score) in enumerate(evaluated(work)):
        (answer,) = read(file, f"toy-{number}", work / "runs")
        share = answer["right"] / answer["samples"]
        equal &= abs(share - score) < 1e-9
        print(f"{program:17} {score:.4f} {answer['right']:4} of {answer['samples']:4}  {file.name}")
    return 0 if equal else 1


def read(file: Path, name: str, runs: Path) -> list[dict[str, int]]:
    """The answer of `sage samples import`."""
    command = [sys.executable, "-m", "sage_cli", "samples", "import", file, "--as", name, "--json"]
    done = subprocess.run([*command, "--runs", runs], check=True, text=True, stdout=subprocess.PIPE)
    return [json.loads(done.stdout)]


if __name__ == "__main__":
    sys.exit(main())
