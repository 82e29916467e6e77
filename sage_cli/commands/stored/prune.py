"""`sage runs prune`: what can be deleted without losing a result, and what is kept and why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sage_cli.errors import BusyError
from sage_cli.models.policies.names import named_policies
from sage_cli.models.policies.policy import Policy
from sage_cli.store.json_files import TornError, read_object
from sage_cli.store.lock import is_held, writer
from sage_cli.store.runs.run import Run, Runs

SETS = {"samples": "set.json"}
"""Folders of results by model, and the file of each that names the model."""


@dataclass(frozen=True)
class Found:
    """Something on the disk, its size, and why it can be deleted or is kept.

    `run` is the run that it belongs to, if it belongs to one.
    """

    path: Path
    size: int
    why: str
    run: Run | None = None


@dataclass(frozen=True)
class PrunePlan:
    """What `carry_out` deletes, and what it keeps."""

    deleted: tuple[Found, ...]
    kept: tuple[Found, ...]


@dataclass(frozen=True)
class Wanted:
    """What is to be deleted besides checkpoints of finished runs that nothing was measured on.

    `completions` are those that trainings kept, `measured` are measured checkpoints, too, and
    `orphans` are results of models that no run here has, as those of runs that were removed.
    """

    completions: bool = False
    measured: bool = False
    orphans: bool = False


def plan_prune(runs: Runs, wanted: Wanted) -> PrunePlan:
    """Return what would be deleted, and what is kept; nothing is changed."""
    pruning = _Pruning(runs, wanted)
    found = [*pruning.of_runs(), *pruning.of_results()]
    return PrunePlan(
        tuple(one for one, deleted in found if deleted),
        tuple(one for one, deleted in found if not deleted),
    )


def carry_out(plan: PrunePlan) -> list[Found]:
    """Delete what the plan says, and return it; runs that are being written by now are left."""
    done = []
    for one in plan.deleted:
        with suppress(BusyError):
            if one.run is None:
                _delete(one.path)
            else:
                with writer(one.run.folder):
                    _delete(one.path)
            done.append(one)
    return done


@dataclass(frozen=True)
class _Pruning:
    runs: Runs
    wanted: Wanted

    @cached_property
    def results(self) -> dict[Path, str | None]:
        """Folders of results, and the fingerprint of the model of each; None if it is torn."""
        found: dict[Path, str | None] = {}
        for kind, name in SETS.items():
            for file in sorted((self.runs.root / kind).glob(f"*/{name}")):
                try:
                    found[file.parent] = str(read_object(file, "").get("model"))
                except TornError:
                    found[file.parent] = None
        return found

    @cached_property
    def policies(self) -> dict[str, list[Policy]]:
        """Run -> its checkpoints, and its model if it is finished."""
        return {run.id: named_policies(f"{run.id}@all", self.runs) for run in self.runs.whole()}

    def of_runs(self) -> Iterator[tuple[Found, bool]]:
        """Yield checkpoints and kept completions of all runs."""
        measured = set(self.results.values())
        for run in self.runs.whole():
            for policy in self.policies[run.id]:
                if policy.checkpoint is not None:
                    yield self._checkpoint(run, policy, measured)
            completions = run.folder / "completions"
            if completions.is_dir():
                deleted = self.wanted.completions and run.finished
                why = "completions of the training" + ("" if deleted else "; --completions")
                yield _found(completions, why, run), deleted

    def _checkpoint(
        self, run: Run, policy: Policy, measured: set[str | None]
    ) -> tuple[Found, bool]:
        folder = Path(policy.path)
        if is_held(run.folder):
            return _found(folder, "the run is being written", run), False
        if not run.finished:
            return _found(folder, "the training resumes from here", run), False
        # a run that may have to load the checkpoint, its parent
        unfinished = (one for one in self.runs.whole() if not one.finished)
        grown = (one.id for one in unfinished if one.manifest.get("parent") == policy.word)
        if child := next(grown, None):
            return _found(folder, f"{child} grows from here and is not finished", run), False
        ends_with = Policy.of_run(run).fingerprint
        if policy.fingerprint in measured - {ends_with}:
            why = "measured" + ("" if self.wanted.measured else "; --measured")
            return _found(folder, why, run), self.wanted.measured
        return _found(folder, "the run is finished", run), True

    def of_results(self) -> Iterator[tuple[Found, bool]]:
        """Yield results of models that no run here has."""
        known = {policy.fingerprint for of_run in self.policies.values() for policy in of_run}
        for folder, model in self.results.items():
            if model is None or model in known:
                continue
            deleted = self.wanted.orphans
            why = f"{folder.parent.name} of a model that no run here has"
            yield _found(folder, why + ("" if deleted else "; --orphans")), deleted


def _found(path: Path, why: str, run: Run | None = None) -> Found:
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Found(path, size, why, run)


def _delete(folder: Path) -> None:
    """Rename the folder before its files go, so that a kill leaves nothing that looks whole."""
    aside = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)
