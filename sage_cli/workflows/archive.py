"""`sage runs archive` and `restore`: a run with all that its numbers are counted from."""

from __future__ import annotations

import shutil
from pathlib import Path

from sage_cli.content import file_hash
from sage_cli.errors import StoreError
from sage_cli.models.folders import WEIGHTS_FILE
from sage_cli.policies.policy import Policy
from sage_cli.store.archive import RUNS, SAMPLES, Archive, sets_of, unpacked, write_archive
from sage_cli.store.json_text import json_text
from sage_cli.store.run import Run, Runs

DRAWN = ".parquet"


def archive(root: Path, name: str, file: Path) -> Archive:
    """Put the run `name` and the runs that it grew from into `file`, with their samples.

    Raises StoreError for a run that isn't finished.
    """
    runs = _lineage(Runs(root), Runs(root).find(name))
    fingerprints = {run.id: Policy.of_run(run).fingerprint for run in runs}
    left_out = {
        f"{RUNS}/{run.id}/model/{WEIGHTS_FILE}": json_text({"fingerprint": fingerprint}).encode()
        for run in runs
        if not (run.model / WEIGHTS_FILE).is_file()
        for fingerprint in [fingerprints[run.id]]
    }
    return write_archive(file, runs, sets_of(root, list(fingerprints.values())), left_out)


def restore(root: Path, file: Path, digest: str | None = None) -> tuple[Archive, list[str]]:
    """Put an archive's runs and samples below `root`; returns the ids of runs that are new there.

    A run or a sample that is there already stays as it is. Raises StoreError where the archive was
    changed, has another digest than `digest`, is all there already, or has other samples under the
    name of stored ones.
    """
    with unpacked(file, root) as (held, folder):
        if digest is not None and not held.digest.startswith(digest):
            raise StoreError(
                f"{file} has the digest {held.digest}, not {digest}",
                "get the archive with that digest, or leave out --digest",
            )
        new = [id_ for id_ in held.runs if not (root / id_).exists()]
        if held.runs[0] not in new:
            raise StoreError(
                f"{root / held.runs[0]} is there already",
                "remove it, or restore into another folder with --runs",
            )
        _refuse_other_samples(folder, root)
        _put_samples(folder, root)
        for id_ in reversed(new):  # the run that it is about comes last, and vouches for the rest
            (folder / RUNS / id_).rename(root / id_)
    return held, new


def _lineage(runs: Runs, run: Run) -> list[Run]:
    """A run and those that it grew from, the youngest first."""
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished", "type its command again to finish it"
        )
    parent = run.manifest.get("parent")
    known = {one.id: one for one in runs.all() if one.finished}
    return [run, *(_lineage(runs, known[parent]) if parent in known else [])]


def _refuse_other_samples(folder: Path, root: Path) -> None:
    for part in (folder / SAMPLES).glob(f"*/*{DRAWN}"):
        there = root / part.relative_to(folder)
        if there.is_file() and file_hash(there) != file_hash(part):
            raise StoreError(
                f"{there} holds other samples than the archive has under that name",
                "restore into another folder with --runs",
            )


def _put_samples(folder: Path, root: Path) -> None:
    """Every file that isn't there yet; parts last, so that a set is described before it is read."""
    files = [path for path in (folder / SAMPLES).rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.suffix == DRAWN):
        place = root / path.relative_to(folder)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, place)
