"""Training dynamics: gradient norms early, mid and late, reward against test, entropy, KL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from sage_cli.analysis.analysis import Analysis, Inputs, Options, TrainedRun, share_over_problems
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.panels import Series, draw_steps
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns

QUANTITIES = {
    "grad_norm": "gradient norm",
    "reward": "training reward",
    "entropy": "token entropy (nats)",
    "kl/reference": "KL to the reference",
    "kl/shaped": "KL to the anchor",
    "groups/zero_variance": "groups without advantage",
}
"""Keys of metrics.jsonl -> names; those that no run has are left out."""
_PHASES = ("early", "mid", "late")
"""Thirds of the steps: the paper does not define its phases."""


def dynamics(inputs: Inputs) -> Document:
    """Return phase means (Table 5), reward beside test (Figure 2), and pictures of both."""
    lines: dict[str, dict[str, Series]] = {}
    points: dict[str, dict[str, Series]] = {}
    rows, test_rows = [], []
    for key, name in QUANTITIES.items():
        for run, trained in inputs.trained.items():
            line = series(trained.records, key)
            if len(line[0]):
                lines.setdefault(name, {})[run] = line
                cells = phase_means(line, trained.records)
                rows.append(Row((name, run, *cells), section=name))
    for run, trained in inputs.trained.items():
        for passed in tested(trained, inputs.options):
            test_rows.append(Row((run, *passed), section=run))
        for benchmark, by_step in trained.measured.items():
            steps = sorted(by_step)
            share = [float((by_step[step].c_P / by_step[step].n_P).mean()) for step in steps]
            line = np.array(steps, float), np.array(share)
            points.setdefault(f"pass@1 on {benchmark}", {})[run] = line
    phases = Table(
        "training by thirds of the steps",
        columns(f"quantity, run, {', '.join(_PHASES)}"),
        tuple(rows),
        (
            "± is the deviation over steps, which follow each other and are not independent; "
            "differences between methods take several training seeds",
        ),
    )
    test = Table(
        "training reward against test",
        columns("run, benchmark, step, training reward, pass@1"),
        tuple(test_rows),
        (
            "training reward: mean over the sixteenth of the steps before; pass@1 with its "
            "interval over problems, from samples that are stored of checkpoints",
        ),
    )
    notes = [
        f"`sage passk {trained.run}@all` measures {called}'s checkpoints"
        for called, trained in inputs.trained.items()
        if not trained.measured
    ]
    return Document(
        name="dynamics",
        title="training dynamics",
        data={"phases": to_records(phases), "test": to_records(test)},
        tables=(phases, test) if test_rows else (phases,),
        sheets={"dynamics": phases, "dynamics-test": test, "dynamics-steps": _steps(lines)},
        figures=(Figure("dynamics", partial(draw_steps, lines, points)),),
        notes=tuple(notes),
    )


def series(records: Sequence[Mapping[str, Any]], key: str) -> Series:
    """Return the steps that recorded the quantity, and its values."""
    points = [
        (float(record["step"]), float(record[key]))
        for record in records
        if record.get(key) is not None and not np.isnan(record[key])
    ]
    steps, values = np.array(points).reshape(-1, 2).T
    return steps, values


def phase_means(line: Series, records: Sequence[Mapping[str, Any]]) -> list[Estimate]:
    """Return mean and deviation over the first, second and last third of the steps."""
    (step, value), last = line, int(records[-1]["step"])
    ends = [last * third / 3 for third in range(4)]
    means = []
    for begin, end in pairwise(ends):
        inside = value[(step > begin) & (step <= end)]
        sd = float(inside.std(ddof=1)) if len(inside) > 1 else None
        mean = float(inside.mean()) if len(inside) else float("nan")
        means.append(Estimate(mean, sd, digits=4))
    return means


def tested(trained: TrainedRun, options: Options) -> list[tuple[str, int, Estimate, Estimate]]:
    """Return (benchmark, step, training reward, pass@1) of each measured checkpoint."""
    step, reward = series(trained.records, "reward")
    window = max(1, len(step) // 16)
    rows = []
    for benchmark, by_step in trained.measured.items():
        for checkpoint, counts in sorted(by_step.items()):
            before = reward[step <= checkpoint][-window:]
            mean = Estimate(float(before.mean()) if len(before) else float("nan"))
            passed = share_over_problems(counts.c_P / counts.n_P, options)
            rows.append((benchmark, checkpoint, mean, passed))
    return rows


def _steps(by_quantity: Mapping[str, Mapping[str, Series]]) -> Table:
    rows = tuple(
        Row((name, run, int(step), Estimate(float(value))))
        for name, lines in by_quantity.items()
        for run, line in lines.items()
        for step, value in zip(*line, strict=True)
    )
    return Table("every step", columns("quantity, run, step, value"), rows)


DYNAMICS = Analysis(
    "dynamics",
    "gradient norms early, mid and late, reward against test, entropy, KL (Table 5, Figure 2)",
    dynamics,
    records=True,
)
