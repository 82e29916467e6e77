"""A sweep's report as W&B shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sage_cli.config.records import TrackingSection
from sage_cli.reports.document import Report
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.sweeps.table import cells_table
from sage_cli.reports.tables.render import to_records
from sage_cli.store.mirrors.wandb_sweep import SweepPicture, mirror_sweep
from sage_cli.sweep.stored import StoredSweep


def mirror_report(report: Report, facts: Mapping[str, Any], tracking: TrackingSection) -> None:
    """Show a sweep's report in W&B, as `tracking` asks; `facts` say what was searched and how."""
    result = StoredSweep(report.folder).result
    assert result is not None  # `report` was written there
    picture = SweepPicture(
        config={name: value for name, value in facts.items() if name != "storage"},
        cells=[
            {**row, "state": state}
            for row, state in zip(to_records(cells_table(result)), _states(result), strict=True)
        ],
        pictures={path.stem: path for path in report.files if path.suffix == ".png"},
        summary=_summary(result),
    )
    mirror_sweep(report.folder, picture, tracking)


def _states(result: SweepResult) -> list[str]:
    """Of the table's rows."""
    return [*(["base"] if result.base else []), *(cell.state for cell in result.cells)]


def _summary(result: SweepResult) -> dict[str, Any]:
    """How many cells ended how, and by objective the best one's value, settings and runs."""
    states = [cell.state for cell in result.cells]
    found: dict[str, Any] = {
        f"cells/{state}": states.count(state) for state in dict.fromkeys(states)
    }
    for which, objective in enumerate(result.objectives):
        place = result.best(objective)
        values = None if place is None else result.cells[place].values
        if place is None or values is None:
            continue
        cell, name = result.cells[place], f"best/{objective}"
        found |= {f"{name}/{key}": value for key, value in cell.settings.items()}
        found |= {f"{name}/value": values[which], f"{name}/runs": " ".join(cell.runs)}
    return found
