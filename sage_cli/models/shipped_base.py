"""The trained initial policy that comes with `sage`, as a finished run beside those of a user."""

from __future__ import annotations

import secrets
import shutil
from glob import escape
from pathlib import Path

from sage_cli import RESULT_VERSION
from sage_cli.config.schema import SageConfig, settings
from sage_cli.json_value import leaves
from sage_cli.settings.model import ScratchModel
from sage_cli.store.files import storing
from sage_cli.store.run import Run, Runs

SHIPPED = "shipped"
"""The `origin` in the manifest of a run that came with `sage`."""
_FOLDER = Path(__file__).with_name(SHIPPED)
_READ = ("model.", "prompt.", "data.sft.", "data.arithmetic.", "sft.")
"""The settings that decide what SFT makes of random weights and generated demonstrations."""


def shipped_run(trained: Run) -> Run | None:
    """Return the run that takes the place of training `trained`; None if no shipped base does.

    A base serves where SFT would be named exactly as the training that made it was: by model,
    prompt, SFT settings, demonstrations and result version. Its own run hash is another, made from
    its weights, because training it again gives other ones on another processor.
    """
    for source in _sources():
        manifest = source.read_manifest()
        if manifest["trained_as"] == trained.read_identity():
            return Run(trained.folder.with_name(source.id), manifest["identity"])
    return None


def shipped_run_named(name: str, runs: Runs) -> Run | None:
    """Return the shipped base that `name` is a part of; None where a run in the folder is meant."""
    here = runs.root.glob(f"*{escape(name)}*/manifest.json")
    if not name or Path(name).exists() or any(here):
        return None
    named = (Run(runs.root / source.id, source.read_identity()) for source in _sources())
    return next((run for run in named if name in run.id), None)


def shipped_source(run: Run | None) -> Run | None:
    """Return the shipped base in the package of which `run` is, or will be, the copy."""
    sources = (source for source in _sources() if run is not None and source.id == run.id)
    return next(
        (source for source in sources if run and source.read_identity() == run.read_identity()),
        None,
    )


def put_in_place(run: Run | None) -> None:
    """Copy the shipped base into the folder of runs, if `run` is one that is not there yet.

    Several processes may do so at once: the folder appears whole, by the first of them. Raises
    StoreError where it can't be written.
    """
    source = shipped_source(run)
    if run is None or source is None or run.has_begun():
        return
    aside = run.folder.with_name(f".{run.id}.{secrets.token_hex(4)}.tmp")
    with storing(run.folder.parent):
        try:
            shutil.copytree(source.folder, aside)
            aside.rename(run.folder)
        except OSError:
            if not run.has_begun():  # else another process was first
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def why_not_shipped(config: SageConfig) -> str | None:
    """Return why SFT trains a model from scratch although one comes with `sage`; None for others.

    Names the settings that differ from those of the shipped base.
    """
    if not isinstance(config.model, ScratchModel) or not config.sft.enabled:
        return None
    if not config.sft.shipped:
        return "sft.shipped is false"
    schema, ours = settings(), dict(leaves(config.model_dump(mode="json")))
    for source in _sources():
        theirs = dict(leaves(source.read_config()))
        differing = [
            key
            for key, value in ours.items()
            if key.startswith(_READ) and not key.startswith(("model.tuning", "model.lora."))
            if key in theirs and theirs[key] != value
            if not (key in schema and schema[key].cosmetic)
        ]
        if differing:
            return f"the base that comes with sage has another {', '.join(differing)}"
        if source.read_manifest()["result_version"] != RESULT_VERSION:
            return "the base that comes with sage is of another result version"
    return None


def _sources() -> list[Run]:
    return [Run(manifest.parent) for manifest in sorted(_FOLDER.glob("*/manifest.json"))]
