"""How trainings went: gradient norms early, mid and late, reward against test, entropy, KL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.material import Asked, Material, TrainedRun
from sage_cli.analysis.means import share_over_problems
from sage_cli.analysis.pictures import steps
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document
from sage_cli.reports.render import Record, to_records
from sage_cli.reports.table import Column, Measure, Row, Table

QUANTITIES = {
    "grad_norm": "gradient norm",
    "reward": "training reward",
    "entropy": "token entropy (nats)",
    "kl/reference": "KL to the reference",
    "kl/shaped": "KL to the anchor",
    "groups/zero_variance": "groups without advantage",
}
"""Names in metrics.jsonl -> what they are called; those that no run has are left out."""
PHASES = ("early", "mid", "late")
"""Thirds of the steps: the paper doesn't say where its phases begin."""

Series = tuple[FloatArray, FloatArray]


class DynamicsData(TypedDict):
    """Quantities by thirds of the steps, and training reward against test."""

    phases: list[Record]
    test: list[Record]


def dynamics(material: Material) -> Document:
    """Phase means of every quantity (Table 5), reward beside test (Figure 2), and the pictures."""
    panels: dict[str, dict[str, Series]] = {}
    points: dict[str, dict[str, Series]] = {}
    rows, test_rows = [], []
    for key, name in QUANTITIES.items():
        for run, trained in material.trained.items():
            line = series(trained.records, key)
            if len(line[0]):
                panels.setdefault(name, {})[run] = line
                cells = phase_means(line, trained.records)
                rows.append(Row((name, run, *cells), section=name))
    for run, trained in material.trained.items():
        for benchmark, step, reward, passed in tested(trained, material.asked):
            test_rows.append(Row((run, benchmark, step, reward, passed), section=run))
        for benchmark, by_step in trained.measured.items():
            at = np.array(sorted(by_step), float)
            share = [float((by_step[int(s)].c_P / by_step[int(s)].n_P).mean()) for s in at]
            points.setdefault(f"pass@1 on {benchmark}", {})[run] = at, np.array(share)
    phases = Table(
        "training by thirds of the steps",
        tuple(map(Column, ("quantity", "run", *PHASES))),
        tuple(rows),
        ("± is the deviation over steps, which follow each other and are not independent; "
         "differences between methods take several training seeds",),
    )  # fmt: skip
    test = Table(
        "training reward against test",
        tuple(map(Column, ("run", "benchmark", "step", "training reward", "pass@1"))),
        tuple(test_rows),
        ("training reward: mean over the sixteenth of the steps before; pass@1 with its interval "
         "over problems, from samples that are stored of checkpoints",),
    )  # fmt: skip
    notes = [
        f"`sage passk {trained.run}@all` measures {called}'s checkpoints"
        for called, trained in material.trained.items()
        if not trained.measured
    ]
    return Document(
        name="dynamics",
        title="training dynamics",
        provenance=material.provenance,
        data=DynamicsData(phases=to_records(phases), test=to_records(test)),
        tables=(phases, test) if test_rows else (phases,),
        sheets={"dynamics": phases, "dynamics-test": test, "dynamics-steps": _steps(panels)},
        figures=(steps("dynamics", panels, points),),
        notes=tuple(notes),
    )


def series(records: Sequence[Mapping[str, Any]], key: str) -> Series:
    """The steps that have the quantity, and its values."""
    known = [
        (float(record["step"]), float(record[key]))
        for record in records
        if record.get(key) is not None and not np.isnan(record[key])
    ]
    return np.array([step for step, _ in known]), np.array([value for _, value in known])


def phase_means(line: Series, records: Sequence[Mapping[str, Any]]) -> list[Measure]:
    """Mean and deviation over the first, the second and the last third of a training's steps."""
    (step, value), last = line, int(records[-1]["step"])
    ends = [last * third / 3 for third in range(4)]
    found = []
    for begin, end in pairwise(ends):
        inside = value[(step > begin) & (step <= end)]
        sd = float(inside.std(ddof=1)) if len(inside) > 1 else None
        found.append(Measure(float(inside.mean()) if len(inside) else float("nan"), sd, digits=4))
    return found


def tested(trained: TrainedRun, asked: Asked) -> list[tuple[str, int, Measure, Measure]]:
    """(benchmark, step, training reward, pass@1) of every checkpoint that was measured."""
    step, reward = series(trained.records, "reward")
    window = max(1, len(step) // 16)
    found = []
    for benchmark, by_step in trained.measured.items():
        for at in sorted(by_step):
            before = reward[step <= at][-window:]
            seen = Measure(float(before.mean()) if len(before) else float("nan"))
            counts = by_step[at]
            found.append((benchmark, at, seen, share_over_problems(counts.c_P / counts.n_P, asked)))
    return found


def _steps(panels: Mapping[str, Mapping[str, Series]]) -> Table:
    rows = tuple(
        Row((name, run, int(step), Measure(float(value))))
        for name, lines in panels.items()
        for run, line in lines.items()
        for step, value in zip(*line, strict=True)
    )
    return Table("every step", tuple(map(Column, ("quantity", "run", "step", "value"))), rows)


DYNAMICS = Analysis(
    "dynamics",
    "gradient norms early, mid and late, reward against test, entropy, KL (Table 5, Figure 2)",
    dynamics,
    DynamicsData,
    records=True,
)
