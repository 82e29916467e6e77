"""What was run: policies by method and seed, what they took, and the commands."""

from __future__ import annotations

from sage_cli.policies.state import state
from sage_cli.reports.document import Document
from sage_cli.reports.table import Column, Measure, Row, Table
from sage_cli.suite.planned import PlannedSuite
from sage_cli.suite.results import PartResult
from sage_cli.trials.cost import cost
from sage_cli.trials.task import DONE


def runs(result: PartResult) -> Document:
    """A row for each training, the base's first."""
    names = ("method", "seed", "policy", "state", "steps", "minutes")
    rows, spent_s = [], {}
    for method in result.methods:
        for one in method.replicates:
            run = one.policy.run
            manifest = run.known if run else {}
            seconds = float(manifest.get("seconds", "nan"))
            spent_s[one.policy.label] = seconds
            of = one.config.sft if one.is_initial else one.config.rl
            found = state(run) if run else "taken as it is"
            number = (of.steps or "–") if run else "–"
            minutes = Measure(seconds / 60, digits=1)
            rows.append(
                Row((method.label, one.seed + 1, one.policy.label, found, str(number), minutes))
            )
    whole = sum(value for value in spent_s.values() if value == value)
    table = Table("Policies", tuple(map(Column, names)), tuple(rows))
    return Document(
        name="runs",
        title="What was run",
        data={"seconds": whole},
        tables=(table,),
        sheets={"runs": table},
        notes=(f"{whole / 60:.1f} minutes of training in all, sampling and grading left out",),
    )


def tasks(plan: PlannedSuite) -> Document:
    """The commands, which of them are done, and what all of them cost at most."""
    columns = tuple(map(Column, ("", "task", "state", "command")))
    rows = tuple(
        Row((str(number), task.title, task.state, task.typed))
        for number, task in enumerate(plan.tasks, 1)
    )
    spent = cost(plan.tasks)
    done = sum(row.cells[2] == DONE for row in rows)
    return Document(
        name="tasks",
        title="Commands and cost",
        data={"cost": spent, "done": done, "tasks": len(rows)},
        tables=(Table(f"{done} of {len(rows)} tasks are done", columns, rows),),
        notes=(f"all tasks from the beginning: {spent.describe()}",),
    )
