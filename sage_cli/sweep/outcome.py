"""What a sweep found, as a document: the study's cells with what the store holds of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.problems.load import benchmark_names
from sage_cli.reports.document import Document
from sage_cli.reports.sweeps.data import Axis, CellFailure, SweepCell
from sage_cli.reports.sweeps.data import State as Shown
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.sweep.cells import mean_scores, score
from sage_cli.sweep.prepared import Sweep
from sage_cli.sweep.proposal import Proposal, State
from sage_cli.sweep.space import Parameter, Range

if TYPE_CHECKING:
    from sage_cli.sweep.study import Study


def outcome(sweep: Sweep, study: Study, under_way: Collection[int]) -> Document:
    """The cells that were proposed, in their order, with the base beside them.

    `under_way` are the proposals whose trainings go on without their driver.
    """
    settings = sweep.config.sweep
    return sweep_document(
        [_axis(one) for one in sweep.space.parameters],
        settings.objectives,
        [_cell(one, sweep, one.number in under_way) for one in study.proposals()],
        configured_provenance(sweep.cells.benchmarks, EvaluationRecipe.of(sweep.cells.shared)),
        base=_base(sweep),
        importances=study.importances(),
        selected_on_reported=_reported(sweep),
    )


def _axis(one: Parameter) -> Axis:
    domain = one.domain
    if isinstance(domain, Range):
        return Axis(one.name, one.key, low=domain.low, high=domain.high, log=domain.log)
    return Axis(one.name, one.key, values=domain.values)


def _cell(one: Proposal, sweep: Sweep, goes_on: bool) -> SweepCell:
    """A proposal with all of its seeds that are measured, those of a race among them."""
    trainings = [sweep.cells.training(one.cell, s) for s in range(sweep.config.sweep.seeds)]
    found = {t.run.id: counts for t in trainings if (counts := sweep.cells.trained(t)) is not None}
    cell = SweepCell(one.cell, one.state.value, runs=tuple(found))
    if one.state is State.DONE:
        scores = [score(sweep.config.sweep.objectives, counts) for counts in found.values()]
        # the runs may be gone, and the values stay
        values = mean_scores(scores) if scores else one.values
        return replace(cell, values=values, counts=tuple(found.values()) or None)
    if one.state is State.FAILED:
        lines = tuple(one.attrs.get("lines", ()))
        why = CellFailure(str(one.attrs.get("failure")), str(one.attrs.get("reason")), lines)
        return replace(cell, failure=why)
    if one.state is State.PRUNED:
        return replace(cell, pruned=str(one.attrs.get("reason")))
    return replace(cell, state=_unfinished(sweep, goes_on))


def _unfinished(sweep: Sweep, goes_on: bool) -> Shown:
    """What is said of a cell that the next driver takes up."""
    if goes_on:
        return "running"
    return "cancelled" if sweep.folder.cancelled else "left"


def _base(sweep: Sweep) -> SweepCell | None:
    """What RL began with; None where it differs from cell to cell, or isn't measured."""
    base, counts = sweep.cells.base, sweep.cells.counts(sweep.cells.base, sweep.cells.shared)
    if counts is None:
        return None
    values = score(sweep.config.sweep.objectives, counts)
    return SweepCell({}, "done", values, (base.label,), (counts,))


def _reported(sweep: Sweep) -> str | None:
    """Names of benchmarks that settings are chosen on although they are also reported."""
    reported = set(benchmark_names(sweep.config.evaluation.benchmark))
    both = [one.name for one in sweep.cells.benchmarks if one.name in reported]
    return ", ".join(both) or None
