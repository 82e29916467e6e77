"""A suite's results from its runs, and from published measurements for runs that are not here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sage_cli.errors import ConfigurationError
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.planned import Part, PlannedSuite
from sage_cli.trials.suites.registered.measurements_file import Row, read_measurements
from sage_cli.trials.suites.results import MethodResult, PartResult, results
from sage_cli.trials.task import Measurements
from sage_cli.trials.trial import Replicate

RUNS = "runs"
_T = TypeVar("_T")


def found_results(
    plan: PlannedSuite,
    failures: Mapping[str, str],
    published: Path | None = None,
    *,
    as_planned: bool = True,
) -> tuple[list[PartResult], str]:
    """Return the results of a plan's suites, and where they are from.

    A replicate that is not measured here is taken from the file `published`, which
    `sage suite publish` wrote; with `as_planned` only if its run and problems are the planned ones.
    The source is "runs", that file's name, "runs and" its name, or "" if nothing is measured.
    Raises ConfigurationError if the file has nothing of the plan.
    """
    own = [results(part, plan.stored, failures) for part in plan.parts]
    here = sum(map(_measured, own))
    wanted = sum(len(method.replicates) for one in own for method in one.methods)
    if published is None or here == wanted:
        return own, RUNS if here else ""
    theirs = read_measurements(published, plan.parts, _planned(plan) if as_planned else None)
    if not sum(map(_measured, theirs)):
        raise ConfigurationError(
            f"{published} has no result of the runs that {plan.suite.name} plans: another suite, "
            "or other settings, seeds or temperatures",
            "give the suite the settings of the published page",
        )
    both = [_completed(*one) for one in zip(plan.parts, own, theirs, strict=True)]
    taken = sum(map(_measured, both)) - here
    return both, " and ".join([RUNS] * bool(here) + [published.name] * bool(taken))


def _planned(plan: PlannedSuite) -> Callable[[Replicate, Row], bool]:
    """Return the question whether a row is of a replicate's own run and problems."""

    def planned(one: Replicate, row: Row) -> bool:
        known = {by.name: tuple(by.golds) for by in plan.stored.benchmarks(one.config)}
        same_run = row["policy"] == one.policy.label
        return same_run and known.get(row["benchmark"]) == tuple(row["problems"])

    return planned


def _measured(result: PartResult) -> int:
    exact = result.suite.exact
    return sum(len(result.read[one.label] if exact else one.measured) for one in result.methods)


def _completed(part: Part, own: PartResult, published: PartResult) -> PartResult:
    """Return results with those of `published` for the replicates that lack them."""
    read = {}
    for trial in part.trials if part.suite.exact else ():
        order = [(one.start, one.seed) for one in trial.replicates]
        label = trial.label
        read[label] = _in_order(order, own.read[label], published.read[label], _place)
    methods = []
    for mine, theirs in zip(own.methods, published.methods, strict=True):
        labels = [one.policy.label for one in mine.replicates]
        measured = _in_order(labels, mine.measured, theirs.measured, _policy)
        there = read[mine.label] if part.suite.exact else measured
        why = mine.why if len(there) < len(labels) else None
        methods.append(MethodResult(mine.trial, measured, why))
    return PartResult(part.suite, methods, own.same, read)


def _in_order(
    order: Sequence[Hashable],
    own: Sequence[_T],
    theirs: Sequence[_T],
    name: Callable[[_T], Hashable],
) -> list[_T]:
    """Return the result of each name in `order`, the own one if there is one."""
    there = {name(one): one for one in (*theirs, *own)}
    return [there[one] for one in order if one in there]


def _place(one: ReadReplicate) -> tuple[str | None, int]:
    return one.replicate.start, one.replicate.seed


def _policy(measured: Measurements) -> str:
    return next(iter(measured.values()))[0].policy
