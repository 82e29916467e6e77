"""Every answer by its address: what the server sends, and what an export holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sage_cli.errors import ConfigurationError, SageError, StoreError
from sage_cli.store.json_files import compact_json
from sage_cli.store.run import Run
from sage_cli.view.passk_view import difference_view, passk_view
from sage_cli.view.problems_view import problem_view, problems_view
from sage_cli.view.runs_view import ledger_view, records_view, rollouts_view, run_view, runs_view
from sage_cli.view.sample_columns import Absent, Filters, ShownPolicies, StoredColumns
from sage_cli.view.samples_view import PageQuery, location_of, sample_rows, samples_view
from sage_cli.view.stored_runs import LruCache, MeasuredPolicy, Policies, RunsRead
from sage_cli.view.tokens_view import read_tokens, tokens_view
from sage_cli.view.trials_view import suite_view, suites_view, sweep_view, sweeps_view

T = TypeVar("T")
_TABLES_KEPT = 2
"""Tables of runs that are kept as text; 20,000 runs are five megabytes."""


@dataclass(frozen=True)
class Query:
    """Parameters by name, as they stand in an address."""

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a text; None if it is absent or empty."""
        return self.values.get(name) or None

    def names(self, name: str) -> list[str]:
        """Return the names of a list with commas, each once."""
        listed = map(str.strip, self.values.get(name, "").split(","))
        return list(dict.fromkeys(filter(None, listed)))

    def number(self, name: str) -> int | None:
        """Return a whole number from 0, None if it is absent. Raises ConfigurationError."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise ConfigurationError(f"{name} is '{text[:40]}', but must be a whole number")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """Return True for 1 and False for 0; None if it is absent."""
        return {"1": True, "0": False}.get(self.values.get(name, ""))

    def required(self, name: str) -> str:
        """Return a text. Raises ConfigurationError if it is absent."""
        text = self.text(name)
        if text is None:
            raise ConfigurationError(f"the address has no {name}", "start at the table of runs")
        return text

    @property
    def page_query(self) -> PageQuery:
        """Return which samples are asked for."""
        problem = self.text("problem")
        return PageQuery(
            Filters(
                problems=(problem,) if problem else None,
                grade=self.text("grade"),
                truncated=self.flag("truncated"),
                shortest=self.number("shortest"),
                longest=self.number("longest"),
                seed=self.number("seed"),
            ),
            self.text("text") or "",
            self.number("offset") or 0,
            min(self.number("limit") or 25, 200),
        )


class Api:
    """The answers about what is stored below `root`. Nothing is kept but what was read.

    With `once` the list of runs is read a single time.
    """

    def __init__(self, root: Path, *, once: bool = False) -> None:
        self.root = root
        self.runs = RunsRead(root, once=once)
        self.policies = Policies(self.runs)
        self.columns = StoredColumns()
        self._tables: LruCache[bytes] = LruCache(_TABLES_KEPT)

    def encoded(self, name: str, values: Mapping[str, str]) -> bytes:
        """Return an answer as JSON; the table of runs, which may be long, as long as it is current.

        Raises as `answer` does.
        """
        if name != "runs":
            return compact_json(self.answer(name, values)).encode()
        asked = Query(values).names("columns")
        version, facts = self.runs.versioned(asked)
        return self._tables.get(
            (version, *asked),
            lambda: compact_json(runs_view(self.runs, asked, facts)).encode(),
        )

    def answer(self, name: str, values: Mapping[str, str]) -> Any:
        """Return the answer of an address with these parameters.

        Raises KeyError for an unknown name, SageError for what is asked wrongly or not there.
        """
        return ANSWERS[name](self, Query(values))

    def shown(self, names: Sequence[str], benchmark: str | None) -> ShownPolicies:
        """Return the policies that can be shown on a benchmark, by default what most share."""
        absent: list[Absent] = []

        def made(policies: Iterable[str], make: Callable[[str], T]) -> dict[str, T]:
            """Return what `make` gives by policy; those for which it fails become absent."""
            results = {}
            for policy in policies:
                try:
                    results[policy] = make(policy)
                except (SageError, OSError) as error:
                    absent.append({"policy": policy, "why": _because(error)})
            return results

        measured_on = made(names, self.policies.benchmarks)
        shared = Counter(name for listed in measured_on.values() for name in listed)
        benchmarks = [name for name, _ in shared.most_common()]
        chosen = benchmark or next(iter(benchmarks), "")
        measured = made(measured_on, lambda name: self.policies.measured(name, chosen))
        columns = made(measured, lambda name: self.columns.read(measured[name]))
        pairs = [(measured[name], of_policy) for name, of_policy in columns.items()]
        return ShownPolicies(pairs, benchmarks, absent, self.runs.looks())


def _because(error: Exception) -> str:
    if isinstance(error, SageError) and error.next_step:
        return f"{error.cause}: {error.next_step}"
    return str(error)


def _records(api: Api, query: Query) -> Any:
    facts = api.runs.find(query.required("run"))
    return records_view(facts, query.names("names"), api.policies)


def _named(api: Api, query: Query) -> Run:
    return api.runs.find(query.required("run")).run


def _difference(api: Api, query: Query) -> Any:
    names = [query.required("a"), query.required("b")]
    if names[0] == names[1]:
        raise ConfigurationError(f"{names[0]} is named twice", "choose two different policies")
    policies = api.shown(names, query.required("benchmark"))
    if len(policies.pairs) < 2:
        raise StoreError("; ".join(f"{row['policy']}: {row['why']}" for row in policies.absent))
    first, second = policies.pairs
    return difference_view(first, second, query.text("k"))


def _problem(api: Api, query: Query) -> Any:
    policies, problem = _policies(api, query), query.required("problem")
    return problem_view(policies, problem, query.page_query)


def _policies(api: Api, query: Query) -> ShownPolicies:
    return api.shown(query.names("policies"), query.text("benchmark"))


def _samples(api: Api, query: Query) -> Any:
    measured, benchmarks = _measured(api, query)
    return samples_view(measured, api.columns.read(measured), benchmarks, query.page_query)


def _sample(api: Api, query: Query) -> Any:
    """Return one sample with its whole text."""
    measured, _ = _measured(api, query)
    columns = api.columns.read(measured)
    problem, seed, index = query.required("problem"), query.number("seed"), query.number("index")
    location = location_of(columns, problem, seed or 0, index or 0)
    if location is None:
        raise StoreError(f"sample {index} of problem {problem} is not stored")
    return sample_rows(measured.label, columns, [location], characters=50_000_000)[0]


def _tokens(api: Api, query: Query) -> Any:
    """Return the stored reading of a sample; with `compute`, which only a POST may say, read it."""
    measured, _ = _measured(api, query)
    problem, seed = query.required("problem"), query.number("seed") or 0
    make = read_tokens if query.flag("compute") else tokens_view
    return make(measured, api.policies, problem, seed, query.number("index") or 0)


def _measured(api: Api, query: Query) -> tuple[MeasuredPolicy, list[str]]:
    name = query.required("policy")
    benchmarks = api.policies.benchmarks(name)
    benchmark = query.text("benchmark") or (benchmarks[0] if benchmarks else "")
    return api.policies.measured(name, benchmark), benchmarks


ANSWERS: Mapping[str, Callable[[Api, Query], Any]] = {
    "runs": lambda api, query: runs_view(api.runs, query.names("columns")),
    "run": lambda api, query: run_view(query.required("run"), api.policies),
    "records": _records,
    "rollouts": lambda api, query: rollouts_view(_named(api, query), query.number("step")),
    "ledger": lambda api, query: ledger_view(
        _named(api, query), query.number("step"), api.policies
    ),
    "passk": lambda api, query: passk_view(_policies(api, query), query.text("k")),
    "difference": _difference,
    "problems": lambda api, query: problems_view(_policies(api, query)),
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
