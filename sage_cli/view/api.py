"""Every answer by its address: what the server sends, and what an export holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError, SageError, StoreError
from sage_cli.store.runs.run import Run
from sage_cli.view.query import Query
from sage_cli.view.stored.columns import Columns, StoredColumns
from sage_cli.view.stored.policies import Measured, Policies
from sage_cli.view.stored.runs_read import RunsRead
from sage_cli.view.topics.passk import Absent, difference_view, passk_view
from sage_cli.view.topics.problems import problem_view, problems_view
from sage_cli.view.topics.run import guide_view, ledger_view, records_view, rollouts_view, run_view
from sage_cli.view.topics.runs import runs_view
from sage_cli.view.topics.samples import place_of, rows_of, samples_view
from sage_cli.view.topics.suites import suite_view, suites_view
from sage_cli.view.topics.sweeps import sweep_view, sweeps_view
from sage_cli.view.topics.tokens import read_tokens, tokens_view


class Api:
    """The answers about what is stored below `root`. Nothing is kept but what was read.

    With `once` the list of runs is read a single time.
    """

    def __init__(self, root: Path, *, once: bool = False) -> None:
        self.root = root
        self.runs = RunsRead(root, once=once)
        self.policies = Policies(self.runs)
        self.columns = StoredColumns()

    def answer(self, name: str, values: Mapping[str, str]) -> Any:
        """Return the answer of an address with these parameters.

        Raises KeyError for an unknown name, SageError for what is asked wrongly or not there.
        """
        return ANSWERS[name](self, Query(values))

    def measured(self, names: Sequence[str], benchmark: str | None) -> Found:
        """Return the policies that can be shown on a benchmark, by default what most share."""
        absent: list[Absent] = []
        known: dict[str, list[str]] = {}
        for name in names:
            try:
                known[name] = self.policies.benchmarks(name)
            except SageError as error:
                absent.append({"policy": name, "why": _because(error)})
        shared = Counter(one for of in known.values() for one in of)
        benchmarks = [name for name, _ in shared.most_common()]
        chosen = benchmark or next(iter(benchmarks), None)
        found = []
        for name in known:
            try:
                found.append(self.policies.measured(name, chosen or ""))
            except SageError as error:
                absent.append({"policy": name, "why": _because(error)})
        return Found(found, benchmarks, absent)


@dataclass
class Found:
    """The policies that can be shown on a benchmark, all benchmarks, and who is absent and why."""

    measured: list[Measured]
    benchmarks: list[str]
    absent: list[Absent]

    def with_columns(self, stored: StoredColumns) -> list[tuple[Measured, Columns]]:
        """Return each policy with its columns; those that cannot be read become absent."""
        shown = []
        for one in self.measured:
            try:
                shown.append((one, stored.of(one)))
            except (SageError, OSError) as error:
                self.absent.append({"policy": one.label, "why": _because(error)})
        return shown


def _because(error: Exception) -> str:
    if isinstance(error, SageError) and error.next_step:
        return f"{error.cause}: {error.next_step}"
    return str(error)


def _records(api: Api, query: Query) -> Any:
    facts = api.runs.find(query.required("run"))
    return records_view(facts, query.names("names"), api.policies)


def _named(api: Api, query: Query) -> Run:
    return api.runs.find(query.required("run")).run


def _passk(api: Api, query: Query) -> Any:
    found = api.measured(query.names("policies"), query.text("benchmark"))
    looks, shown = api.runs.looks(), found.with_columns(api.columns)
    return passk_view(shown, found.benchmarks, found.absent, looks, query.text("k"))


def _difference(api: Api, query: Query) -> Any:
    names = [query.required("a"), query.required("b")]
    if names[0] == names[1]:
        raise ConfigurationError(f"{names[0]} is named twice", "name two different policies")
    found = api.measured(names, query.required("benchmark"))
    shown = found.with_columns(api.columns)
    if len(shown) < 2:
        raise StoreError("; ".join(f"{one['policy']}: {one['why']}" for one in found.absent))
    return difference_view(shown[0], shown[1], query.text("k"))


def _problems(api: Api, query: Query) -> Any:
    found = api.measured(query.names("policies"), query.text("benchmark"))
    shown = found.with_columns(api.columns)
    return problems_view(shown, found.benchmarks, found.absent, api.runs.looks())


def _problem(api: Api, query: Query) -> Any:
    found = api.measured(query.names("policies"), query.text("benchmark"))
    shown = found.with_columns(api.columns)
    dissimilar = query.text("order") == "dissimilar"
    return problem_view(
        shown, query.required("problem"), query.wanted, found.absent, api.runs.looks(),
        dissimilar=dissimilar,
    )  # fmt: skip


def _samples(api: Api, query: Query) -> Any:
    one, benchmarks = _one(api, query)
    return samples_view(one, api.columns.of(one), benchmarks, query.wanted)


def _sample(api: Api, query: Query) -> Any:
    """Return one sample with its whole text."""
    one, _ = _one(api, query)
    columns = api.columns.of(one)
    problem, seed, index = query.required("problem"), query.number("seed"), query.number("index")
    place = place_of(columns, problem, seed or 0, index or 0)
    if place is None:
        raise StoreError(f"sample {index} of problem {problem} is not stored")
    return rows_of(one.label, columns, [place], characters=50_000_000)[0]


def _tokens(api: Api, query: Query) -> Any:
    """Return the stored reading of a sample; with `compute`, which only a POST may say, read it."""
    one, _ = _one(api, query)
    problem, seed = query.required("problem"), query.number("seed") or 0
    make = read_tokens if query.flag("compute") else tokens_view
    return make(one, api.policies, problem, seed, query.number("index") or 0)


def _one(api: Api, query: Query) -> tuple[Measured, list[str]]:
    name = query.required("policy")
    benchmarks = api.policies.benchmarks(name)
    benchmark = query.text("benchmark") or (benchmarks[0] if benchmarks else "")
    return api.policies.measured(name, benchmark), benchmarks


ANSWERS: Mapping[str, Callable[[Api, Query], Any]] = {
    "runs": lambda api, query: runs_view(api.runs, query.names("columns")),
    "run": lambda api, query: run_view(query.required("run"), api.policies),
    "records": _records,
    "rollouts": lambda api, query: rollouts_view(_named(api, query), query.number("step")),
    "ledger": lambda api, query: ledger_view(_named(api, query), query.number("step")),
    "guide": lambda api, query: guide_view(_named(api, query)),
    "passk": _passk,
    "difference": _difference,
    "problems": _problems,
    "problem": _problem,
    "samples": _samples,
    "sample": _sample,
    "tokens": _tokens,
    "sweeps": lambda api, _: sweeps_view(api.root),
    "sweep": lambda api, query: sweep_view(api.root, query.required("sweep")),
    "suites": lambda api, _: suites_view(api.root),
    "suite": lambda api, query: suite_view(api.root, query.required("suite"), api.runs.looks()),
}
"""Name of an answer -> the function that makes it."""
