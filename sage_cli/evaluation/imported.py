"""Samples of another program, stored as those of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.file_judge import check_readable_golds, grading_settings, store_samples
from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.problems import Gathered, gather
from sage_cli.evaluation.logs.registry import read_log
from sage_cli.file_hash import read_hash
from sage_cli.models.folders import WEIGHTS_FILE
from sage_cli.problems.problem import PROBLEMS
from sage_cli.progress import Progress
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import encodable
from sage_cli.store.files import write_text
from sage_cli.store.json_files import write_json
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import IMPORTED, Run

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_FOLDERS = frozenset({"reports", "runs", "samples", "suites", "sweeps"})


def imported_run(root: Path, name: str, samples: Gathered) -> Run:
    """Return the run `name` of these samples, there already or not.

    Raises ConfigurationError for a name that can be no run's, StoreError for one that is taken.
    """
    if not _NAME.fullmatch(name) or name in _FOLDERS or name.endswith((".jsonl", ".csv")):
        raise ConfigurationError(
            f"--as {name}: a name has letters, digits, _, . and -, and differs from "
            "sage's own folders",
            "for example --as their-model",
        )
    run = Run(root / name, identity_of(IMPORTED, samples.fingerprint))
    if not run.has_begun() and not run.is_free():
        raise StoreError(f"{run.folder} exists already and is not a run", "choose another name")
    if run.has_begun() and run.read_manifest().get("identity") != run.planned:
        raise StoreError(
            f"{run.folder} already exists and contains something else",
            f"choose another name, or `sage runs remove {name}` first",
        )
    return run


def check_readable(file: Log, samples: Gathered, path: Path) -> None:
    """Raise DataError for samples without texts, and golds to compare that `math` can't read."""
    if any(sample.text is None for sample in file.samples):
        raise DataError(
            f"{path} contains likelihoods, or the number of correct answers without "
            "saying which ones are correct",
            f"`sage passk {path}` and `sage compare` count its verdicts as they are",
        )
    if file.has_verdicts:
        return
    check_readable_golds(samples, path)


def store(run: Run, path: Path, file: Log, samples: Gathered) -> None:
    """Write the run: its problems, samples, verdicts as grades, and where all that came from."""
    name = encodable(path.name)
    about = {
        "program": file.program,
        "file": name,
        "sha256": read_hash(path),
        "score": file.score,
        "settings": {key: value for key, value in file.settings.items() if value is not None},
        "unknown": list(file.unknown),
    }
    seed = file.settings.get("seed")
    flags: Mapping[str, Any] = {
        "evaluation": {"benchmark": PROBLEMS, "samples": samples.n, "k": f"1..{samples.n}:pow2"},
        "grading": grading_settings(file),
        "tracking": {"wandb": "off"},
    }
    with run.recording(
        load((), flags, (), {}).config.model_dump(mode="json"),
        kind=IMPORTED,
        parent=None,
        seed=seed if isinstance(seed, int) else 0,
        template=IMPORTED,
        data=name,
    ) as recorded:
        recorded.note(imported=about, weights=samples.fingerprint)
        write_json(run.model / WEIGHTS_FILE, {"fingerprint": samples.fingerprint})
        rows = (
            {"question": problem.question, "gold": problem.gold, "id": problem.meta["id"]}
            for problem in samples.problems.values()
        )
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(run.folder / PROBLEMS, lines)
        _store(run.folder.parent, file, samples)


def _store(root: Path, file: Log, samples: Gathered) -> None:
    """Store completions and, where each has one, verdicts; what is there is not written again."""
    stored = store_samples(root, file.program, samples)
    if not file.has_verdicts:
        return
    grades = GradeStore(stored, {"judge": IMPORTED_JUDGE}, computable=False)
    for rows in grades.missing(samples.problems, samples.most):
        graded = [(row, samples.samples[row.problem_id][row.index]) for row in rows]
        grades.add([(row, "right" if s.correct else "wrong", s.extracted) for row, s in graded])
    grades.flush()


@dataclass(frozen=True)
class Imported:
    """The run of imported samples, and what was read; `was_there` if it had been stored before."""

    run: Run
    file: Log
    samples: Gathered
    was_there: bool

    @property
    def in_words(self) -> list[str]:
        """Return what was read, known and not, a line each."""
        file, samples = self.file, self.samples
        stated = [f"{key} {value}" for key, value in file.settings.items() if value is not None]
        total = sum(map(len, samples.samples.values()))
        judged = (
            f"{samples.right:,} of {total:,} are marked correct by {file.program}'s {file.score}"
            if file.has_verdicts
            else "the file marks no sample as correct or wrong, so the judge of sage grades them"
        )
        uneven = samples.n != samples.most
        return [
            f"{samples.in_words()}, {judged}",
            *file.all_notes,
            *samples.notes,
            *([f"only the first {samples.n} samples of each problem are measured"] * uneven),
            f"settings in the file: {', '.join(stated) or 'none'}",
            f"settings that the file does not state: {', '.join(file.unknown) or 'none'}",
        ]

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the answer of `--json`."""
        total = sum(map(len, self.samples.samples.values()))
        return {
            "run": self.run.id,
            "program": self.file.program,
            "score": self.file.score,
            "problems": len(self.samples.problems),
            "samples": total,
            "right": self.samples.right if self.file.has_verdicts else None,
            "settings": {k: v for k, v in self.file.settings.items() if v is not None},
            "unknown": list(self.file.unknown),
            "left_out": dict(self.file.left_out),
            "notes": self.in_words,
        }


def import_samples(
    root: Path,
    path: Path,
    name: str,
    reading: ReadOptions,
    progress: Progress,
    *,
    write: bool = True,
) -> Imported:
    """Read a file and store its samples as the run `name`; without `write` nothing is stored.

    What can't be used is an error before anything is written.
    """
    with progress.doing(f"reading {path}"):
        file = read_log(path, reading)
        samples = gather(file, path).by_content()
        run = imported_run(root, name, samples)
    with progress.doing("reading the golds"):
        check_readable(file, samples, path)
    there = run.has_begun() and run.is_finished()
    if write and not there:
        with progress.doing(f"storing {samples.in_words()}"):
            store(run, path, file, samples)
    return Imported(run, file, samples, there)
