"""`sage runs archive` and `restore`: a run with all that its numbers are counted from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.models.folders import WEIGHTS_FILE, without_weights
from sage_cli.models.policies.policy import Policy
from sage_cli.store.archive import sets_of, unpacked, write_archive
from sage_cli.store.archive_list import AGAIN, RUNS, SAMPLES, Archive, not_as_made
from sage_cli.store.atomic import storing
from sage_cli.store.json_object import read_object
from sage_cli.store.json_text import json_text
from sage_cli.store.received import check_sets, put_set
from sage_cli.store.run import Run, Runs


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
    changed, has another digest than `digest`, is all there already, or holds what couldn't be read
    once it stood among the stored runs and samples. Nothing is put in place then.
    """
    with unpacked(file, root) as (held, folder):
        if digest is not None and not held.digest.startswith(digest):
            raise StoreError(
                f"{file} has the digest {held.digest}, not {digest}",
                "get the archive with that digest, or leave out --digest",
            )
        new = [id_ for id_ in held.runs if not os.path.lexists(root / id_)]
        if held.runs[0] not in new:
            raise StoreError(
                f"{root / held.runs[0]} is there already",
                "remove it, or restore into another folder with --runs",
            )
        fingerprints = _fingerprints(held.runs, folder / RUNS, file)
        models = check_sets(folder, root)
        if strange := [key for key, model in models.items() if model not in fingerprints]:
            raise not_as_made(file, f"none of its runs drew the samples of {strange[0]}")
        with storing(root):
            for key in models:
                put_set(folder / SAMPLES / key, root / SAMPLES / key)
            for id_ in reversed(new):  # the run that it is about comes last, and vouches for all
                (folder / RUNS / id_).rename(root / id_)
    return held, new


def _lineage(runs: Runs, run: Run) -> list[Run]:
    """A run and those that it grew from, the youngest first."""
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished", "type its command again to finish it"
        )
    known = {one.id: one for one in runs.whole() if one.finished and one.id != run.id}
    lineage = [run]
    while (parent := known.pop(str(lineage[-1].manifest.get("parent")), None)) is not None:
        lineage.append(parent)
    return lineage


def _fingerprints(ids: Sequence[str], runs: Path, file: Path) -> list[str]:
    """The fingerprints of an archive's runs, each of which is the parent of the one before it."""
    found = []
    for id_, parent in zip(ids, [*ids[1:], None], strict=True):
        settings = read_object(runs / id_ / "config.json", AGAIN)
        if not all(isinstance(section, dict | None) for section in settings.values()):
            raise not_as_made(file, f"the config.json of {id_} holds no settings")
        grew_from = read_object(runs / id_ / "manifest.json", AGAIN).get("parent")
        if grew_from != parent if parent else grew_from in ids:
            raise not_as_made(file, f"{id_} didn't grow from {parent}")
        fingerprint = without_weights(runs / id_ / "model")
        if fingerprint is None:
            raise not_as_made(file, f"{id_} doesn't say which weights were left out")
        found.append(fingerprint)
    return found
