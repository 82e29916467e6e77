"""A sweep's folder as a driver leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep_cells import GRID, MEMORY, PASS_1, at, done, sweep_document

from sage_cli.config.load import load
from sage_cli.reports.document import Provenance
from sage_cli.reports.sweep_report import SweepTrial
from sage_cli.settings.sections.runs import Objective
from sage_cli.store.files import write_json

TRIALS = (
    done(at(GRID, 0.8, 0.1), 1, -1.5),
    SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY),
    done(at(GRID, 1.2, 0.1), 2, 0.3),
    done(at(GRID, 1.2, 0.3), 3, 0.29),
)


def sweep_folder(
    root: Path,
    name: str,
    trials: Sequence[SweepTrial] = TRIALS,
    objectives: Sequence[Objective] = (PASS_1,),
    **report: Any,
) -> Path:
    """`root`/sweeps/`name` with its report, its state and its configuration.

    Without pictures, which nobody who lists or shows sweeps looks at.
    """
    folder = root / "sweeps" / name
    document = sweep_document(GRID, objectives, trials, Provenance(), **report)
    replace(document, figures=()).write(folder)
    keep_state(folder)
    config = load(["tiny"], {"guide": {"name": "branch"}, "sweep": {"study": name}}).config
    write_json(folder / "config.json", config.model_dump(mode="json"))
    return folder


def keep_state(folder: Path, **changes: Any) -> None:
    """state.json, with nobody driving."""
    state = {
        "name": folder.name, "space": [], "sampler": "grid", "objectives": ["pass@1"],
        "view": f"{folder.name}/01234567",
        "trials": {"done": 3, "failed": 1, "pruned": 0, "left": 2},
        "best": "tau 1.2, rho 0.1: pass@1 0.451",
    }  # fmt: skip
    write_json(folder / "state.json", {**state, **changes})
