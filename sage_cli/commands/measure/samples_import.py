"""`sage samples import`: samples of other programs as a run that is measured like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.evaluation.imported.foreign import ForeignFile
from sage_cli.evaluation.imported.gathered import Gathered, gathered
from sage_cli.evaluation.imported.read import FORMATS, detected, read_foreign
from sage_cli.evaluation.imported.stored import imported_run, refuse_unreadable_golds, store
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run


@dataclass(frozen=True)
class Imported:
    """The run of imported samples, and what was read; `was_there` if it had been stored before."""

    run: Run
    form: str
    file: ForeignFile
    samples: Gathered
    was_there: bool

    @property
    def in_words(self) -> list[str]:
        """Return what was read, known and not, a line each."""
        file, samples = self.file, self.samples
        known = [f"{key} {value}" for key, value in file.settings.items() if value is not None]
        total = sum(map(len, samples.samples.values()))
        judged = (
            f"{samples.right:,} of {total:,} right by {file.program}'s {file.score}"
            if file.has_verdicts
            else "no verdict for each sample: the golds are compared with our judge"
        )
        uneven = samples.n != samples.most
        return [
            f"{samples.in_words()}, {judged}",
            *file.notes,
            *(
                [f"{samples.left_out} samples of repeated problems are left out"]
                * bool(samples.left_out)
            ),
            *([f"the first {samples.n} samples of each problem are measured"] * uneven),
            f"the file says: {', '.join(known) or 'no settings'}",
            f"it doesn't say: {', '.join(file.unknown) or 'nothing is missing'}",
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
            "notes": self.in_words,
        }


def import_samples(
    root: Path,
    path: Path,
    name: str,
    program: str | None,
    score: str | None,
    progress: Progress,
    *,
    write: bool = True,
) -> Imported:
    """Read a file and store its samples as the run `name`; without `write` nothing is stored.

    What can't be used is an error before anything is written.
    """
    with progress.doing(f"reading {path}"):
        file = read_foreign(path, program, score)
        form = FORMATS[program or detected(path)].title
        samples = gathered(file, path)
        run = imported_run(root, name, samples)
    with progress.doing("reading the golds"):
        refuse_unreadable_golds(file, samples, path)
    there = run.begun and run.finished
    if write and not there:
        with progress.doing(f"storing {samples.in_words()}"):
            store(run, path, file, samples)
    return Imported(run, form, file, samples, there)
