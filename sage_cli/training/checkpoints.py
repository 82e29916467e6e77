"""Checkpoints that are either whole or ignored: sealed once every file is on the disk.

The seal says which run wrote them, so that another run's are refused rather than gone on from.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from sage_cli.errors import Interrupted, StoreError
from sage_cli.file_hash import changed_files, content_hash, sealed_hashes
from sage_cli.methods.loop import Method
from sage_cli.models.config_json import facts_of_folder, facts_of_path, model_differences, shape
from sage_cli.models.folders import read_json
from sage_cli.store.json_files import write_json
from sage_cli.store.locks import Lease
from sage_cli.store.run import SEAL, Run

log = logging.getLogger(__name__)


def seal(checkpoint: Path, lease: Lease | None = None) -> None:
    """Flush every file to the disk, then write down hashes and run: from now on it counts.

    Raises StoreError if another process has taken the run over, which `lease` shows.
    """
    if lease is not None:
        lease.require()
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    for file in files:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    hashes = sealed_hashes(checkpoint, files, content_hash)
    run = checkpoint.parent.resolve().parent.name
    write_json(checkpoint / SEAL, {"run": run, "files": hashes})


def newest_sealed(folder: Path, model: Any = None) -> Path | None:
    """Return the last whole checkpoint below `folder`; remove incomplete ones, as a kill leaves
    them.

    So do later ones whose files are no longer what was saved, each with a warning. Raises
    StoreError where one isn't this run's, or isn't of `model` as far as files show.
    """
    check_own_checkpoints(folder)
    newest = None
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=step_of, reverse=True):
        if newest is None and _is_whole(checkpoint):
            newest = checkpoint
        elif newest is None or not _hashes(checkpoint):
            shutil.rmtree(checkpoint)
    if newest is not None and model is not None:
        _check_same_model(newest, model)
    return newest


def saved_step(folder: Path) -> int:
    """Return the optimiser step of the last whole checkpoint below `folder`, 0 without one."""
    return max((step_of(path) for path in folder.glob("checkpoint-*") if _hashes(path)), default=0)


def interrupted(number: int, run: Run) -> Interrupted:
    """Return the exception that ends a training after signal `number`, with its saved step."""
    step = saved_step(run.checkpoints)
    return Interrupted(number, f"{run.id} is saved at step {step}" if step else None)


def prepare_resume(run: Run, rl: Method, model: Any = None) -> Path | None:
    """Return the checkpoint of `model` to resume from; records of later steps are forgotten.

    Raises StoreError where it was saved inside a generation batch.
    """
    checkpoint = newest_sealed(run.checkpoints, model)
    if checkpoint is not None:
        _check_batch_boundary(checkpoint, rl)
    for file in (run.metrics, run.rollouts, run.ledger, run.completions()):
        file.rewind(step_of(checkpoint) if checkpoint else 0)
    return checkpoint


def check_own_checkpoints(folder: Path) -> None:
    """Raise StoreError where a checkpoint below `folder` was written by another run."""
    ours = folder.resolve().parent.name
    for checkpoint in sorted(folder.glob("checkpoint-*")):
        run = read_json(checkpoint / SEAL).get("run", ours)
        if run != ours:
            raise StoreError(
                f"{checkpoint} was written by {run}, another run than {ours}: its model "
                "or prompt may be another",
                f"remove {checkpoint}, or start again with --fresh (this deletes the stored run)",
            )


def _check_same_model(checkpoint: Path, model: Any) -> None:
    """An adapter is told by its base, a whole model by its shape."""
    if hasattr(model, "peft_config"):
        ours = facts_of_path(str(model.peft_config["default"].base_model_name_or_path))
    else:
        ours = shape(model.config.to_dict())
    differing = model_differences(facts_of_folder(checkpoint), ours)
    if differing:
        raise StoreError(
            f"{checkpoint} does not belong to the model that is trained: {', '.join(differing)}",
            f"remove {checkpoint}, or start again with --fresh (this deletes the stored run)",
        )


def _check_batch_boundary(checkpoint: Path, rl: Method) -> None:
    """Raise StoreError for a checkpoint inside a batch, whose other completions are lost.

    The last step's checkpoint is the finished policy, wherever it lies.
    """
    step, batch = step_of(checkpoint), rl.steps_per_batch
    if step % batch == 0 or step >= rl.steps:
        return
    first = step - step % batch + 1
    raise StoreError(
        f"{checkpoint} was saved within the generation batch of steps {first} to "
        f"{first + batch - 1}, whose completions are not stored, so that a resumed run "
        "would differ",
        f"remove {checkpoint}, so that training resumes from an earlier one or starts "
        "again; or use --fresh, which deletes the stored run",
    )


def rotate(folder: Path, keep: int | None, period: int = 1) -> None:
    """Remove all sealed checkpoints but the last, and before it those of the last steps that are
    multiples of `period`: `keep` in all, None for all of these.

    What an interruption or the clock saved in between goes once it isn't the last any more, so that
    it takes no other's place.
    """
    sealed = (path.parent for path in folder.glob(f"checkpoint-*/{SEAL}"))
    before = sorted(sealed, key=step_of)[:-1]
    regular = [checkpoint for checkpoint in before if step_of(checkpoint) % period == 0]
    kept = regular if keep is None else regular[::-1][: keep - 1]
    for checkpoint in set(before) - set(kept):
        (checkpoint / SEAL).unlink()
        shutil.rmtree(checkpoint)


def step_of(checkpoint: Path) -> int:
    """Return the optimiser step in a checkpoint's name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def _is_whole(checkpoint: Path) -> bool:
    """Return True if a checkpoint's files, which are read, are what its seal says; warn if not."""
    hashes = _hashes(checkpoint)
    changed = changed_files(checkpoint, hashes, content_hash)
    if not hashes and (checkpoint / SEAL).is_file():
        changed = [SEAL]
    if changed:
        log.warning(
            "%s is damaged (%s isn't what was saved): it is removed, and the one before it counts",
            checkpoint,
            ", ".join(changed),
        )
    return bool(hashes) and not changed


def _hashes(checkpoint: Path) -> dict[str, str]:
    """Return the hashes in a checkpoint's seal; empty if it has none."""
    hashes = read_json(checkpoint / SEAL).get("files")
    return hashes if isinstance(hashes, dict) else {}
