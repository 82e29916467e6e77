"""What a sweep found, as a document: the study's cells with what the store holds of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from sage_cli.config.recipe import EvaluationSpec
from sage_cli.errors import SageError
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.problems.load import benchmark_names
from sage_cli.reports.document import Document
from sage_cli.reports.sweeps.data import Axis, CellFailure, SweepCell
from sage_cli.reports.sweeps.data import State as Shown
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.sweep.cells import ByBenchmark, mean_scores, score
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
        configured_provenance(sweep.cells.benchmarks, EvaluationSpec.of(sweep.cells.shared)),
        base=_base(sweep),
        importances=study.importances(),
        selected_on_reported=_reported(sweep),
    )


def lost(study: Study, sweep: Sweep) -> list[Proposal]:
    """The done proposals of whose first seeds the store has not all results any more."""
    done = (one for one in study.proposals() if one.state is State.DONE)
    return [one for one in done if _stored(one, sweep)[1] is not None]


def _stored(one: Proposal, sweep: Sweep) -> tuple[dict[str, ByBenchmark], str | None]:
    """What the store has of a cell, by run, and what of a done cell it should have and hasn't."""
    found, missing = {}, None
    try:
        for seed in range(sweep.config.sweep.seeds):
            training = sweep.cells.training(one.cell, seed)
            if (counts := sweep.cells.trained(training)) is not None:
                found[training.run.id] = counts
            elif seed in sweep.first_seeds:
                missing = missing or f"{training.run.id}, or some of its samples, can't be read"
    except SageError as error:
        missing = error.cause
    return found, missing


def _axis(one: Parameter) -> Axis:
    domain = one.domain
    if isinstance(domain, Range):
        return Axis(one.name, one.key, low=domain.low, high=domain.high, log=domain.log)
    return Axis(one.name, one.key, values=domain.values)


def _cell(one: Proposal, sweep: Sweep, goes_on: bool) -> SweepCell:
    """A proposal with all of its seeds that are measured, those of a race among them."""
    found, missing = _stored(one, sweep)
    cell = SweepCell(one.cell, one.state.value, runs=tuple(found))
    if one.state is State.DONE and missing is not None:
        # the study knows what it was; nothing can be said of its noise
        return replace(cell, state="missing", values=one.values, missing=missing)
    if one.state is State.DONE:
        scores = [score(sweep.config.sweep.objectives, counts) for counts in found.values()]
        return replace(cell, values=mean_scores(scores), counts=tuple(found.values()))
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
