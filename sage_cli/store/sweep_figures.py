"""What a run's mirror says of the sweep whose cell it is: the cell's settings, its objectives."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sage_cli.config.objective import Objective, parse_objective
from sage_cli.store.evaluations import name_in
from sage_cli.store.ledger import Ledger
from sage_cli.store.run import Run


def sweep_figures(run: Run, evaluations: Mapping[str, Any]) -> dict[str, Any]:
    """`sweep/guide.tau`, `sweep/pass@1` and so on; {} for a run that is no cell of its group.

    `evaluations` are the run's `evaluation_figures`. Where several benchmarks were measured, an
    objective is the mean over them; it is left out while one of them is missing.
    """
    config = run.config
    group = config.get("tracking", {}).get("group")
    if not group:
        return {}
    ledger = Ledger(run.folder.parent / "sweeps" / str(group))
    cells = [entry.cell for entry in ledger.entries() if entry.run == run.id]
    if not cells:
        return {}
    found: dict[str, Any] = {f"sweep/{key}": value for key, value in cells[-1].items()}
    asked = config["evaluation"]["benchmark"].split(",")
    names = [name_in(evaluations, name.strip()) for name in asked]
    for objective in map(parse_objective, config["sweep"]["objective"]):
        with suppress(KeyError):  # not measured yet, or not with so many samples
            values = [_value(objective, name, evaluations) for name in names]
            found[f"sweep/{objective.name}"] = sum(values) / len(values)
    return found


def _value(objective: Objective, benchmark: str, evaluations: Mapping[str, Any]) -> float:
    return objective.value(
        {k: evaluations[f"eval/{benchmark}/pass@{k}"] for k in objective.weights}
    )
