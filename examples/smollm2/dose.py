"""Go on with the study configs/suites/smollm2-dose.yaml: dose.py FOLDER, or `make study`.

Reads which units docs/results has, resumes or begins the next, and writes each unit's counts and
steps there as soon as it ends: commit them at once. It runs on one core at the lowest priority, in
FOLDER outside the checkout, with the code of one commit, which the pilot ran with, too. Stop it as
you like: the same command goes on. On another machine the next unit begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dose_kept import STUDY, Kept, replace_text
from dose_pilot import criteria, pilot_of
from dose_units import DROPS, PREPARING, RECORDED, SEEDS, SOLVED, Unit, done, units

from sage_cli.problems.problem import problem_id
from sage_cli.trials.suites.declaration import read_suite

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "262fa653f9a4b5cda855c21a2894c7ec4bcd7fa8"
"""Whose code runs. Another one would be another study."""
PRESET = [
    "-p",
    "smollm2-135m",
    "--set",
    "model.path=smollm2/model",
    "--set",
    "model.compute_dtype=float32",
]
SAMPLES, FORMULA = 16, "make_rows.py:right_working"
"""A problem's samples, and the second judge of each: by a formula with the gold's value."""
SAVE_EVERY = 6
"""Steps that a training loses at most when it is cut off."""


@dataclass(frozen=True)
class Place:
    """The folder of the study on this machine, where commands are typed with the code of a clone.

    The checkout has the declaration and what is kept; what else happens there changes no result.
    """

    folder: Path
    code: Path
    kept: Kept

    def call(self, *words: str) -> str:
        """Run a command of the clone's Python in the folder and return what it prints."""
        env = os.environ | {"PYTHONPATH": str(self.code), "OMP_NUM_THREADS": "1"}
        called = subprocess.Popen(
            [sys.executable, *words], cwd=self.folder, env=env, text=True, stdout=subprocess.PIPE
        )
        try:
            printed, _ = called.communicate()
        except KeyboardInterrupt:  # the terminal has interrupted the command, too, which saves
            called.wait()
            raise
        if called.returncode:
            raise SystemExit(called.returncode)
        return printed

    def sage(self, *words: str) -> Any:
        """Type a command of sage and return what it answers in JSON."""
        return json.loads(self.call("-m", "sage_cli", *words, "--json"))

    def prepare(self) -> None:
        """Make the clone, the model, the rows and the initial policy, where they are not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.code.is_dir():
            clone_commit(self.code)
        made, example = self.folder / "smollm2", self.code / "examples/smollm2"
        if not (made / "model/model.safetensors").is_file():
            self.call(str(example / "make_model.py"), "smollm2/model")
        if not (made / "test.jsonl").is_file():
            self.call(str(example / "make_rows.py"), "smollm2")
        self.sage("sft", *PRESET)

    @cached_property
    def initial(self) -> str:
        """The initial policy's id."""
        (stage,) = self.sage("sft", *PRESET, "--dry-run")["stages"]
        return str(stage["run"])

    @cached_property
    def here(self) -> dict[str, Any]:
        """What decides whether trainings can be compared with this machine's, and what it is."""
        manifest = self.manifest(self.initial)
        version = self.call("-c", "import sage_cli; print(sage_cli.RESULT_VERSION)")
        return {
            "adapter": manifest["files"]["model/adapter_model.safetensors"],
            "result_version": int(version),
            "torch": manifest["versions"]["torch"],
            "processor": processor(),
        }

    def manifest(self, run: str) -> dict[str, Any]:
        """Return a run's manifest."""
        return dict(json.loads((self.folder / "runs" / run / "manifest.json").read_text()))

    def choose_rows(self, unit: Unit) -> str:
        """Write the rows that a unit trains on, by the kept counts, and return the file's name.

        So they are the same on every machine. Raises SystemExit where the counts are not there.
        """
        share, (low, high) = self.kept.shares(unit.pool), SOLVED
        if not share:
            raise SystemExit(f"{self.kept.counts} has no unit '{unit.pool}', which chooses rows")
        name = f"smollm2/{'pilot' if unit.part == 'pilot' else 'pool'}.jsonl"
        lines = (self.folder / "smollm2/train.jsonl").read_text(encoding="utf-8").splitlines()
        chosen = [
            {"question": row["question"], "gold": row["gold"]}
            for row in map(json.loads, lines)
            if low <= share.get(problem_id("train.jsonl", row["question"], row["gold"]), -1) <= high
        ]
        texts = [json.dumps(row, ensure_ascii=False) + "\n" for row in chosen]
        replace_text(self.folder / name, "".join(texts))
        return name

    def training(self, unit: Unit) -> list[str]:
        """Return the command that trains a unit's policy, as the suite declares it."""
        suite = read_suite(str(ROOT / f"configs/suites/{STUDY}.yaml"))
        method = suite.methods[unit.method]
        flags = [word for name, value in method.choices.items() for word in (f"--{name}", value)]
        settings = {
            **{name: v for name, v in suite.settings.items() if not name.startswith("evaluation.")},
            **method.settings,
            "data.rl.name": self.choose_rows(unit),
            "rl.seed": unit.seed,
            "rl.save_every": SAVE_EVERY,
            "rl.stop_when_stuck": "false",
            "tracking.wandb": "off",
        }
        sets = [word for name, v in settings.items() for word in ("--set", f"{name}={v}")]
        return ["rl", *PRESET, *flags, *sets]

    def policy(self, unit: Unit) -> str:
        """Train the policy that a unit measures, where it isn't trained, and return its id."""
        if unit.seed is None:
            return self.initial
        trained = unit if unit.trains else replace(unit, part="pair")
        return str(self.sage(*self.training(trained))["id"])

    def measure(self, policy: str, unit: Unit) -> Iterator[dict[str, Any]]:
        """Yield the rows of a unit's counts, each by the answer and by its formula."""
        n = SAMPLES if unit.temperature else 1
        file = "smollm2/train.jsonl" if unit.chooses else "smollm2/test.jsonl"
        words = [
            "passk",
            policy,
            "--benchmark",
            file,
            "--limit",
            str(unit.problems),
            "--n",
            str(n),
            "--k",
            "1..8:pow2" if n > 1 else "1",
            "--set",
            f"sampling.temperature={unit.temperature:g}",
        ]
        formulas = ["--grade", f"{self.code}/examples/smollm2/{FORMULA}"]
        for curve in self.sage(*words, *formulas)["curves"]:
            judge = curve["policy"].removeprefix(policy)
            (seed,) = curve["seeds"]
            for row in seed["problems"]:
                yield {
                    "suite": STUDY,
                    "unit": unit.name,
                    "method": unit.method,
                    "policy": policy,
                    "benchmark": f"{file}{judge}",
                    "problem": row["problem"],
                    "temperature": unit.temperature,
                    "seed": unit.seed or 0,
                    "evaluation_seed": 0,
                    "n": row["n"],
                    "c": row["c"],
                }

    def steps(self, policy: str) -> dict[str, list[float | None]]:
        """Return what a training has recorded of its steps so far."""
        lines = (self.folder / "runs" / policy / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        keys = [key for key in RECORDED if any(key in record for record in records)]
        return {key: [six_digits(record.get(key)) for record in records] for key in keys}

    def line(self, unit: Unit, policy: str) -> dict[str, Any]:
        """Return what is kept of a unit beside its counts."""
        manifest = self.manifest(policy)
        return {
            "unit": unit.name,
            "method": unit.method,
            "seed": unit.seed,
            "policy": policy,
            "ended": manifest["status"] == "finished",
            "commit": manifest["commit"],
            "made_with": self.here,
            "steps": self.steps(policy) if unit.trains else {},
        }

    def run(self, unit: Unit) -> None:
        """Train and measure what a unit asks for, and keep it."""
        policy = self.policy(unit)
        if unit.measured:
            self.kept.keep_counts(list(self.measure(policy, unit)))
        self.kept.keep_line(self.line(unit, policy))

    def keep_so_far(self, wanted: list[Unit]) -> None:
        """Keep the steps of trainings that have begun here, as far as they are; train nothing."""
        for unit in wanted:
            if unit.trains and self.kept.shares(unit.pool):
                *_, stage = self.sage(*self.training(unit), "--dry-run")["stages"]
                if (self.folder / "runs" / stage["run"] / "metrics.jsonl").is_file():
                    self.kept.keep_line(self.line(unit, stage["run"]))


def clone_commit(folder: Path) -> None:
    """Clone the checkout's repository at the study's commit. Raises SystemExit if it lacks that."""
    here = ["git", "-C", str(ROOT)]
    if subprocess.run(
        [*here, "cat-file", "-e", COMMIT], capture_output=True, check=False
    ).returncode:
        raise SystemExit(f"the history of {ROOT} lacks {COMMIT}: the study needs a whole clone")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    subprocess.run([*here, "clone", "--quiet", "--no-checkout", ".", str(part)], check=True)
    subprocess.run(["git", "-C", str(part), "checkout", "--quiet", "--detach", COMMIT], check=True)
    part.rename(folder)


def six_digits(value: Any) -> float | None:
    """Return a figure in six digits; None for one that is undefined or was not recorded."""
    known = isinstance(value, int | float) and value == value
    return float(f"{value:.6g}") if known else None


def processor() -> str:
    """Return the processor's name, or nothing where the system has no list of them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")


def take_lowest_priority() -> None:
    """Leave the machine to everybody else: one core, where nobody else wants it."""
    os.nice(19)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def show(wanted: list[Unit], kept: Kept) -> None:
    """Print each unit and whether it is kept, then what the pilot is asked."""
    lines = kept.lines()
    states = {line["unit"]: "kept" if line["ended"] else "begun" for line in lines}
    for unit in wanted:
        print(f"{states.get(unit.name, '-'):>5}  {unit.name}")
    for answer in criteria(pilot_of(lines)):
        verdict = "holds" if answer.holds else "fails"
        shown = "not run yet" if answer.value is None else f"{answer.value:.4g}, {verdict}"
        print(f"pilot, {answer.asked}: {shown}")


def main() -> None:
    """Go on with the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder outside the checkout")
    parser.add_argument("--units", type=int, help="end after so many")
    parser.add_argument("--part", help="run this part alone: `initial` needs no pilot")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="run these alone")
    parser.add_argument("--drop", nargs="*", default=[], choices=DROPS, help="leave parts out")
    parser.add_argument("--plan", action="store_true", help="show what is kept; run nothing")
    parser.add_argument("--so-far", action="store_true", help="keep what runs have; run nothing")
    options = parser.parse_args()
    wanted, kept = units(options.drop, options.seeds), Kept(ROOT / "docs/results")
    if options.plan:
        show(wanted, kept)
        return
    take_lowest_priority()
    folder = options.folder.resolve()
    place = Place(folder, folder / "code", kept)
    place.prepare()
    if options.so_far:
        place.keep_so_far(wanted)
        return
    ended = done(kept.lines(), place.here, wanted)
    left = [one for one in wanted if one.name not in ended and options.part in (None, one.part)]
    for unit in left[: options.units]:
        against = [one.asked for one in criteria(pilot_of(kept.lines())) if not one.holds]
        allowed = unit.part in PREPARING or (options.part and not unit.waits)
        if against and not allowed:
            raise SystemExit(f"the pilot doesn't allow more: {'; '.join(against)} (see --plan)")
        print(f"unit: {unit.name}", file=sys.stderr, flush=True)
        place.run(unit)
        print(f"kept: {unit.name}; commit docs/results/{STUDY}.*", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
