"""`sage runs archive` and `restore`: a run with all that its results are computed from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.models.folders import WEIGHTS_FILE, without_weights
from sage_cli.models.policies.policy import Policy
from sage_cli.store.archives.archive import sets_of, unpacked, write_archive
from sage_cli.store.archives.listing import AGAIN, RUNS, SAMPLES, Archive, not_as_made
from sage_cli.store.archives.received import check_sets, put_set
from sage_cli.store.atomic import storing
from sage_cli.store.json_files import json_text, read_object
from sage_cli.store.runs.run import Run, Runs


def archive(root: Path, name: str, file: Path) -> Archive:
    """Write the run `name` and its ancestors, with their samples, to `file`.

    Raises StoreError for a run that is not finished.
    """
    runs = _lineage(Runs(root), Runs(root).find(name))
    fingerprints = {run.id: Policy.of_run(run).fingerprint for run in runs}
    left_out = {
        f"{RUNS}/{run.id}/model/{WEIGHTS_FILE}": json_text(
            {"fingerprint": fingerprints[run.id]}
        ).encode()
        for run in runs
        if not (run.model / WEIGHTS_FILE).is_file()
    }
    return write_archive(file, runs, sets_of(root, list(fingerprints.values())), left_out)


def restore(root: Path, file: Path, digest: str | None = None) -> tuple[Archive, list[str]]:
    """Restore an archive's runs and samples below `root`; return the archive and new runs' ids.

    Stored runs and samples stay unchanged. Raises StoreError if the archive was changed, has
    another digest than `digest`, is restored already, or holds anything that could not be read
    beside the stored runs and samples. Nothing is put in place then.
    """
    with unpacked(file, root) as (archived, folder):
        if digest is not None and not archived.digest.startswith(digest):
            raise StoreError(
                f"{file} has the digest {archived.digest}, not {digest}",
                "get the archive with that digest, or omit --digest",
            )
        new = [id_ for id_ in archived.runs if not os.path.lexists(root / id_)]
        if archived.runs[0] not in new:
            raise StoreError(
                f"{root / archived.runs[0]} already exists",
                "remove it, or restore into another folder with --runs",
            )
        fingerprints = _fingerprints(archived.runs, folder / RUNS, file)
        models = check_sets(folder, root)
        if strange := [key for key, model in models.items() if model not in fingerprints]:
            raise not_as_made(file, f"the samples of {strange[0]} are of none of its runs")
        with storing(root):
            for key in models:
                put_set(folder / SAMPLES / key, root / SAMPLES / key)
            for id_ in reversed(new):  # the archived run comes last: with it, all is in place
                (folder / RUNS / id_).rename(root / id_)
    return archived, new


def _lineage(runs: Runs, run: Run) -> list[Run]:
    """Return a run and its ancestors, from the youngest."""
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished", "run its command again to finish it"
        )
    known = {other.id: other for other in runs.whole() if other.finished and other.id != run.id}
    lineage = [run]
    while (parent := known.pop(str(lineage[-1].manifest.get("parent")), None)) is not None:
        lineage.append(parent)
    return lineage


def _fingerprints(ids: Sequence[str], runs: Path, file: Path) -> list[str]:
    """Return the fingerprints of an archive's runs, each the parent of the one before it."""
    fingerprints = []
    for id_, parent in zip(ids, [*ids[1:], None], strict=True):
        settings = read_object(runs / id_ / "config.json", AGAIN)
        if not all(isinstance(section, dict | None) for section in settings.values()):
            raise not_as_made(file, f"the config.json of {id_} holds no settings")
        grew_from = read_object(runs / id_ / "manifest.json", AGAIN).get("parent")
        if grew_from != parent if parent else grew_from in ids:
            raise not_as_made(file, f"the parent of {id_} is not {parent}")
        fingerprint = without_weights(runs / id_ / "model")
        if fingerprint is None:
            raise not_as_made(file, f"{id_} does not name its weights")
        fingerprints.append(fingerprint)
    return fingerprints
