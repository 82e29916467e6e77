"""Freeze what a checkout does, and show what another one does differently.

    python benchmarks/freeze.py record before.json            # in the old checkout's environment
    python benchmarks/freeze.py record after.json             # in the new one's
    python benchmarks/freeze.py compare before.json after.json

Recorded are run ids, SHA-256 of the weights and the records of trainings on the preset tiny, the
keys of commands' JSON, processor seconds of commands that train nothing, and how many files of the
package a command enters. Six trainings have prompts of one length; eight have prompts of five to
nine tokens, so that a mistake in padding shows. Weights are equal between checkouts on one machine
with one thread, not between kinds of processors. About fifteen minutes; `--only weights` leaves out
the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TRAININGS = {
    "grpo+branch": ["--algo", "grpo", "--guide", "branch"],
    "dapo+token": ["--algo", "dapo", "--guide", "token"],
    "bnpo+random": ["--algo", "bnpo", "--guide", "random"],
    "dars": ["--algo", "dars"],
    "pacs": ["--algo", "pacs"],
    "guided-dpo": ["--algo", "guided-dpo"],
}
PADDED = [
    "--set",
    "data.arithmetic.low=1",
    "--set",
    "data.arithmetic.high=999",
    "--set",
    "sft.steps=100",
]
"""Prompts of five to nine tokens."""
PADDED_TRAININGS = {
    "grpo+branch": ["--algo", "grpo", "--guide", "branch"],
    "lora": ["--algo", "grpo", "--guide", "branch", "--set", "model.tuning=lora"],
    "two iterations": [
        "--algo",
        "grpo",
        "--guide",
        "random",
        "--set",
        "rl.iterations=2",
        "--set",
        "rl.steps_per_generation=2",
    ],
    "head": ["--algo", "grpo", "--guide", "token", "--set", "anchor.estimator=head"],
    "signal of the reference": [
        "--algo",
        "grpo",
        "--guide",
        "branch",
        "--set",
        "guide.signal=reference",
    ],
    "ema": ["--algo", "grpo", "--guide", "branch", "--set", "anchor.ema=0.9"],
    "dars": ["--algo", "dars"],
    "two processes": ["--algo", "dapo", "--guide", "branch", "--processes", "2"],
}
WITH_JSON = {
    "passk": ["passk", "--k", "1..8", "--limit", "8"],
    "config show": ["config", "show"],
    "runs list": ["runs", "list"],
    "suite plan": ["suite", "plan", "demo"],
}
WITHOUT_TRAINING = {
    "--help": ["--help"],
    "rl --help": ["rl", "--help"],
    "rl --dry-run": ["rl", "--algo", "dapo", "--guide", "branch", "--dry-run"],
    "passk --dry-run": ["passk", "--k", "1..256", "--dry-run"],
    "sweep --dry-run": ["sweep", "--space", "tau,rho", "--dry-run"],
}
ENTERING = {
    "rl --dry-run": ["rl", "--algo", "dapo", "--guide", "branch", "--dry-run"],
    "rl": ["rl", "--algo", "dapo", "--guide", "branch", "--steps", "2"],
    "passk": ["passk", "--k", "1..256", "--limit", "8"],
    "sweep": [
        "sweep",
        "--space",
        "tau,rho",
        "--sampler",
        "random",
        "--trials",
        "1",
        "--set",
        "rl.steps=2",
    ],
}
ENTERED = """
import atexit, inspect, sys, threading
files = set()
def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and "/sage_cli/" in code.co_filename:
        if code.co_flags & inspect.CO_OPTIMIZED and "<" not in code.co_name:
            files.add(code.co_filename)
def report():
    sys.setprofile(None)
    print(f"files entered: {len(files)}", file=sys.stderr)
atexit.register(report)
sys.setprofile(profile); threading.setprofile(profile)
from sage_cli.cli.app import main
main()
"""
QUIET = {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


def sage(words: Sequence[str], folder: Path, code: str | None = None) -> tuple[str, str, float]:
    """Type a command in `folder`. Returns its output, its messages and its processor seconds."""
    program = ["-m", "sage_cli"] if code is None else ["-c", code]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *program, *words],
        cwd=folder,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ended.returncode:
        return ended.stdout, f"ended with {ended.returncode}: {ended.stderr[-600:]}", seconds
    return ended.stdout, ended.stderr, seconds


def weights(folder: Path) -> dict[str, str]:
    """SHA-256 of the weights of each run in `folder`, by the run's id."""
    files = sorted(folder.glob("runs/*/model/*.safetensors"))
    return {file.parts[-3]: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def records(folder: Path, runs: Sequence[str]) -> list[dict[str, Any]]:
    """The records of these runs' steps, without what depends on the machine's speed."""
    lines = [
        json.loads(line)
        for run in runs
        for line in (folder / "runs" / run / "metrics.jsonl").read_text().splitlines()
    ]
    timed = ("time/", "memory/")
    return [{k: v for k, v in line.items() if not k.startswith(timed)} for line in lines]


def keys(value: Any, prefix: str = "") -> list[str]:
    """The dotted keys of a JSON value; a list counts by its first element."""
    if isinstance(value, list):
        return keys(value[0], prefix + "[]") if value else [prefix + "[]"]
    if not isinstance(value, dict):
        return [prefix]
    return [key for name, inner in value.items() for key in keys(inner, f"{prefix}.{name}")]


def trained(folder: Path) -> dict[str, Any]:
    """Weights and records of all trainings, by name."""
    trainings = {name: [*words, "--steps", "4"] for name, words in TRAININGS.items()}
    trainings |= {
        f"padded {name}": [*words, *PADDED, "--steps", "10"]
        for name, words in PADDED_TRAININGS.items()
    }
    frozen: dict[str, Any] = {"weights": {}, "records": {}}
    known: set[str] = set()
    for name, words in trainings.items():
        _, messages, _ = sage(["rl", *words], folder)
        found = weights(folder)
        new = sorted(found.keys() - known)
        frozen["weights"][name] = {run: found[run] for run in new} or messages
        frozen["records"][name] = records(folder, new)
        known |= found.keys()
    return frozen


def record(folder: Path) -> dict[str, Any]:
    """All that is compared, of the package that this interpreter imports."""
    frozen: dict[str, Any] = trained(folder) | {"json": {}, "seconds": {}, "entered": {}}
    for name, words in WITH_JSON.items():
        output, messages, _ = sage([*words, "--json"], folder)
        frozen["json"][name] = sorted(set(keys(json.loads(output)))) if output else messages
    for name, words in WITHOUT_TRAINING.items():
        times = [sage(words, folder)[2] for _ in range(7)]
        frozen["seconds"][name] = sorted(times[1:])[2]
    for name, words in ENTERING.items():
        messages = sage(words, folder, ENTERED)[1]
        frozen["entered"][name] = int(messages.rpartition("files entered: ")[2].split()[0])
    return frozen


def differing(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> str:
    """`equal`, or which values of two trainings' records are not."""
    if len(before) != len(after):
        return f"DIFFERENT: {len(before)} became {len(after)}"
    pairs = list(zip(before, after, strict=True))
    gone = sorted({key for old, new in pairs for key in old.keys() - new.keys()})
    came = sorted({key for old, new in pairs for key in new.keys() - old.keys()})
    changed = sorted(
        {
            key
            for old, new in pairs
            for key in old.keys() & new.keys()
            if json.dumps(old[key]) != json.dumps(new[key])
        }
    )
    if changed or gone:
        return f"DIFFERENT: {changed}, gone {gone}, new {came}"
    return f"equal, new {came}" if came else "equal"


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each thing that is compared."""
    lines = []
    for name, runs in before["weights"].items():
        now = after["weights"][name]
        verdict = "equal" if now == runs else f"DIFFERENT: {runs} became {now}"
        lines.append(f"weights and run id of {name}: {verdict}")
    for name, old in before["records"].items():
        lines.append(f"records of {name}: {differing(old, after['records'][name])}")
    for name, old in before.get("json", {}).items():
        gone, new = set(old) - set(after["json"][name]), set(after["json"][name]) - set(old)
        lines.append(f"JSON of {name}: gone {sorted(gone) or '-'}, new {sorted(new) or '-'}")
    for name, old in before.get("seconds", {}).items():
        now = after["seconds"][name]
        lines.append(f"processor seconds of {name}: {old:.2f} -> {now:.2f} ({now / old:.2f})")
    for name, old in before.get("entered", {}).items():
        lines.append(f"files entered by {name}: {old} -> {after['entered'][name]}")
    return lines


def main() -> None:
    """The script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", choices=["weights"], help="record the trainings alone")
    options = parser.parse_args()
    if options.action == "record":
        with tempfile.TemporaryDirectory() as folder:
            frozen = trained(Path(folder)) if options.only else record(Path(folder))
        options.files[0].write_text(json.dumps(frozen, indent=1) + "\n")
        return
    before, after = (json.loads(file.read_text()) for file in options.files)
    print("\n".join(compare(before, after)))


if __name__ == "__main__":
    main()
