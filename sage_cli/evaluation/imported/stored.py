"""Imported samples as a run: problems, a sample set and grades, and a fingerprint for weights."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.imported.foreign import ForeignFile
from sage_cli.evaluation.imported.gathered import Gathered, grading_settings
from sage_cli.evaluation.sample_sets import imported_set
from sage_cli.file_hash import file_hash
from sage_cli.grading.grader import check_golds
from sage_cli.models.folders import WEIGHTS_FILE
from sage_cli.models.policies.prompting import PROBLEMS
from sage_cli.settings.sections.judging import IMPORTED_JUDGE
from sage_cli.store.atomic import write_json, write_text
from sage_cli.store.identity import identity_of
from sage_cli.store.runs.manifest import IMPORTED
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.completion import Completion, encodable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_FOLDERS = frozenset({"reports", "runs", "samples", "suites", "sweeps"})


def imported_run(root: Path, name: str, samples: Gathered) -> Run:
    """Return the run `name` of these samples, there already or not.

    Raises ConfigurationError for a name that can be no run's, StoreError for one that is taken.
    """
    if not _NAME.fullmatch(name) or name in _FOLDERS or name.endswith((".jsonl", ".csv")):
        raise ConfigurationError(
            f"--as {name}: a name is of letters, digits, _, . and -, and no folder's of sage",
            "for example --as their-model",
        )
    run = Run(root / name, identity_of(IMPORTED, samples.fingerprint))
    taken = run.folder.exists() and not run.begun
    if taken or (run.begun and run.manifest.get("identity") != run.planned):
        raise StoreError(
            f"{run.folder} exists already and holds something else",
            f"choose another name, or `sage runs remove {name}` first",
        )
    return run


def refuse_unreadable_golds(file: ForeignFile, samples: Gathered, path: Path) -> None:
    """Raise DataError where golds are to be compared with that `math` can't read."""
    if file.has_verdicts:
        return
    golds = [(one.meta["id"], one.gold) for one in samples.problems.values()]
    if refused := check_golds(golds):
        raise DataError(
            f"{path} has no verdicts, and {len(refused)} golds are not graded right as answers to "
            f"themselves: {', '.join(map(str, refused[:5]))}",
            "mend these golds, or write rows with `correct`",
        )


def store(run: Run, path: Path, file: ForeignFile, samples: Gathered) -> None:
    """Write the run: its problems, samples, verdicts as grades, and where all that came from."""
    name = encodable(path.name)
    about = {
        "program": file.program,
        "file": name,
        "sha256": file_hash(path),
        "score": file.score,
        "settings": {key: value for key, value in file.settings.items() if value is not None},
        "unknown": list(file.unknown),
    }
    seed = file.settings.get("seed")
    with run.recording(
        _config(file, samples),
        kind=IMPORTED,
        parent=None,
        seed=seed if isinstance(seed, int) else 0,
        template=IMPORTED,
        data=name,
    ) as recorded:
        recorded.note(imported=about, weights=samples.fingerprint)
        write_json(run.model / WEIGHTS_FILE, {"fingerprint": samples.fingerprint})
        write_text(run.folder / PROBLEMS, _problem_lines(samples))
        _store_samples(run.folder.parent, file, samples)


def _config(file: ForeignFile, samples: Gathered) -> dict[str, Any]:
    """Return the configuration under which the samples count."""
    flags: Mapping[str, Any] = {
        "evaluation": {"benchmark": PROBLEMS, "samples": samples.n, "k": f"1..{samples.n}:pow2"},
        "grading": grading_settings(file),
        "tracking": {"wandb": "off"},
    }
    return load((), flags, (), {}).config.model_dump(mode="json")


def _problem_lines(samples: Gathered) -> str:
    rows = (
        {"question": one.question, "gold": one.gold, "id": one.meta["id"]}
        for one in samples.problems.values()
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _store_samples(root: Path, file: ForeignFile, samples: Gathered) -> None:
    """Store completions and, where each has one, verdicts; what is there is not written again."""
    stored = imported_set(root, samples.fingerprint)
    with stored.writing({"engine": f"imported from {file.program}"}) as writer:
        for n in sorted({len(of) for of in samples.samples.values()}):
            ids = [id_ for id_, of in samples.samples.items() if len(of) >= n]
            while claimed := writer.claim(ids, n):
                for id_, indices in claimed.items():
                    for index in indices:
                        writer.add(_completion(id_, index, samples))
    if not file.has_verdicts:
        return
    grades = GradeStore(stored, {"judge": IMPORTED_JUDGE})
    for rows in grades.missing(samples.problems, samples.most):
        grades.add([(row, *_grade(row, samples)) for row in rows])
    grades.flush()


def _completion(id_: str, index: int, samples: Gathered) -> Completion:
    one = samples.samples[id_][index]
    reason = one.finish_reason or "stop"
    return Completion(id_, index, one.seed or 0, one.text, one.tokens or 0, reason)


def _grade(row: Completion, samples: Gathered) -> tuple[str, str | None]:
    one = samples.samples[row.problem_id][row.index]
    return "right" if one.right else "wrong", one.extracted
