"""The runs of a suite: policies by method and seed, their cost, and the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from sage_cli.models.policies.planned import state
from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Cell, Column, Measure, Row, Table, columns, to_records
from sage_cli.trials.cost import cost
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.task import DONE, Replicate


def runs(result: PartResult) -> Document:
    """Return a row for each training, the base's first."""
    rows, spent_s = [], {}
    for method in result.methods:
        for one in method.replicates:
            run = one.policy.run
            manifest = run.known if run else {}
            seconds = float(manifest.get("seconds", "nan"))
            spent_s[one.policy.label] = seconds
            of = one.config.sft if one.is_initial else one.config.rl
            status = state(run) if run else "taken as it is"
            number = (of.steps or "–") if run else "–"
            minutes = Measure(seconds / 60, digits=1)
            name: tuple[Cell, ...] = (method.label, one.seed + 1, one.policy.label)
            rows.append(Row((*name, status, str(number), minutes)))
    whole = sum(value for value in spent_s.values() if value == value)
    heads = columns("method, seed, policy, state, steps, minutes")
    table = Table("Policies", heads, tuple(rows))
    return Document(
        name="runs",
        title="What was run",
        data={"seconds": whole},
        tables=(table,),
        sheets={"runs": table},
        notes=(f"{whole / 60:.1f} minutes of training in all, sampling and grading left out",),
    )


def tasks(plan: PlannedSuite) -> Document:
    """Return the commands, their state, and the cost of all at most."""
    rows = tuple(
        Row((str(number), task.title, task.state, task.typed))
        for number, task in enumerate(plan.tasks, 1)
    )
    heads = (Column(""), *columns("task, state, command"))
    whole = cost(plan.tasks)
    done = sum(row.cells[2] == DONE for row in rows)
    return Document(
        name="tasks",
        title="Commands and cost",
        data={"cost": whole, "done": done, "tasks": len(rows)},
        tables=(Table(f"{done} of {len(rows)} tasks are done", heads, rows),),
        notes=(f"all tasks from the beginning: {whole.describe()}",),
    )


@dataclass(frozen=True)
class Spent:
    """The cost of a training, or the mean of several; NaN if unknown."""

    completions: float
    tokens: float
    seconds: float

    @classmethod
    def mean(cls, of: Sequence[Spent]) -> Spent:
        """Return the mean over trainings; NaN of none."""
        columns = zip(*((one.completions, one.tokens, one.seconds) for one in of), strict=True)
        means = [sum(values) / len(of) for values in columns]
        return cls(*means) if of else cls(nan, nan, nan)


def spent(result: PartResult) -> Document:
    """Return a row for each method, with ratios to the first method of `against`."""
    first = result.suite.against[0]
    costs = {one.label: of_method(one) for one in result.methods if not one.is_base}
    beside = costs.get(result.same.get(first, first), Spent(nan, nan, nan))
    rows = []
    for label, one in costs.items():
        ratios = (one.tokens / beside.tokens, one.seconds / beside.seconds)
        counts = (Measure(one.completions, digits=0), Measure(one.tokens, digits=0))
        seconds = Measure(one.seconds, digits=1)
        rows.append(Row((label, *counts, seconds, *(Measure(value, digits=2) for value in ratios))))
    heads = [*columns("method, completions, tokens, seconds")]
    heads += [Column(name, f"times {first}'s") for name in ("tokens", "seconds")]
    table = Table("Cost of a training", tuple(heads), tuple(rows))
    return Document(
        name="spent",
        title="What the methods cost",
        data={"rows": to_records(table)},
        tables=(table,),
        sheets={"spent": table},
        notes=(
            "completions and tokens that were sampled, those that dynamic sampling discarded "
            "included; means over training seeds",
            "seconds are of the wall's clock: tasks that run side by side take each other's",
        ),
    )


def of_method(method: MethodResult) -> Spent:
    """Return the mean over its finished trainings."""
    return Spent.mean([_of_training(one) for one in method.replicates if one.policy.exists])


def _of_training(one: Replicate) -> Spent:
    run = one.policy.run
    records = run.metrics.read() if run else []
    completions, tokens = (
        sum(float(one.get(f"sampled/{of}", nan)) for one in records) if records else nan
        for of in ("completions", "tokens")
    )
    manifest = run.known if run else {}
    return Spent(completions, tokens, float(manifest.get("seconds", nan)))
