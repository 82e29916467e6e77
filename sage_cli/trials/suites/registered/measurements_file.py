"""A suite's counts and chances as one Parquet file beside its page, so that others can check it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sage_cli.errors import StoreError
from sage_cli.evaluation.exact.chances import Chances
from sage_cli.metrics.counts import Counts, FloatArray, SampleGrades
from sage_cli.reports.measurement import Measured
from sage_cli.store.atomic import replacing
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.planned import Part
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.trial import Replicate

ENDING = ".measurements.parquet"
DROPPED = 6
"""Last bits of a logarithm of 32 bits that are set to 0: a chance p is then known to a part in
130,000 / -ln p, and the file is a third smaller."""

SCHEMA = pa.schema(
    [
        ("suite", pa.string()), ("method", pa.string()), ("initial_policy", pa.string()),
        ("seed", pa.int32()), ("policy", pa.string()), ("benchmark", pa.string()),
        ("problem_set", pa.string()), ("problems", pa.list_(pa.string())),
        ("evaluation_seed", pa.int64()), ("n", pa.list_(pa.int32())), ("c", pa.list_(pa.int32())),
        ("grades", pa.binary()), ("statuses", pa.string()), ("truncated", pa.int64()),
        ("sample_set", pa.string()),
        ("step", pa.int32()), ("ways", pa.list_(pa.string())), ("guesses", pa.list_(pa.string())),
        ("temperatures", pa.list_(pa.float64())), ("log_chances", pa.list_(pa.float32())),
    ]
)  # fmt: skip
"""A row is a policy on a benchmark: with one evaluation seed `n` and `c`, or at a step of its
training (null: its end) the logarithms of each way's chance, by temperature, problem and way.

`problems` are listed where a set of them first occurs.
"""

INSIDE = ".list.element"
"""The path of a list's values in Parquet."""
Row = dict[str, Any]
Key = tuple[str, str, str | None, int]


def write_measurements(file: Path, results: Sequence[PartResult]) -> int:
    """Write all counts and chances of suites; return the number of rows."""
    rows = [row for result in results for row in _rows(result)]
    # what is alike lies side by side, and is compressed
    rows.sort(key=lambda row: (row["problem_set"], str(row.get("step"))))
    seen: set[str] = set()
    for row in rows:
        if row["problem_set"] in seen:
            row["problems"] = None
        seen.add(row["problem_set"])
    with replacing(file) as temporary:
        pq.write_table(
            pa.Table.from_pylist(rows, SCHEMA), temporary,
            compression="zstd", compression_level=12,
            use_dictionary=[f"{name}{INSIDE}" for name in ("problems", "ways", "guesses")],
            use_byte_stream_split=[f"log_chances{INSIDE}"],
        )  # fmt: skip
    return len(rows)


def read_measurements(
    file: Path, parts: Sequence[Part], planned: Callable[[Replicate, Row], bool] | None = None
) -> list[PartResult]:
    """Return the results of suites from their published counts and chances.

    `planned` says if a row is of a replicate as it is planned here; None: all are. Raises
    StoreError if the file can't be read.
    """
    try:
        rows = pq.read_table(file, schema=SCHEMA).to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError(f"{file} can't be read: {error}", "write it with suite publish") from None
    problems = {row["problem_set"]: tuple(row["problems"]) for row in rows if row["problems"]}
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        row["problems"] = problems[row["problem_set"]]
        key = (row["suite"], row["method"], row["initial_policy"], row["seed"])
        by_key.setdefault(key, []).append(row)
    return [_result(part, by_key, planned) for part in parts]


def _rows(result: PartResult) -> Iterator[Row]:
    for method in result.methods:
        by_policy = {one.policy.label: one for one in method.replicates}
        for seeds in (seeds for by in method.measured for seeds in by.values()):
            for one in seeds:
                place = _place(result, method.label, by_policy[one.policy])
                yield {**place, **_counts_row(one)}
    for label, every in result.read.items():
        for read in every:
            ends: list[tuple[int | None, Mapping[str, Chances]]] = [(None, read.end)]
            for step, by in (*ends, *read.steps.items()):
                for benchmark, chances in by.items():
                    own = {"benchmark": benchmark, "step": step, **_chances_row(chances)}
                    yield {**_place(result, label, read.replicate), **own}


def _place(result: PartResult, label: str, one: Replicate) -> Row:
    return {
        "suite": result.suite.name, "method": label, "initial_policy": one.start,
        "seed": one.seed + 1, "policy": one.policy.label,
    }  # fmt: skip


def _counts_row(one: Measured) -> Row:
    counts = one.counts
    grades = counts.grades
    return {
        "benchmark": one.benchmark,
        **_problems(counts.problem_ids),
        "evaluation_seed": one.seed,
        "n": counts.n_P.tolist(),
        "c": counts.c_P.tolist(),
        "grades": None if grades is None else np.packbits(grades.right_PN).tobytes(),
        "statuses": json.dumps(dict(one.statuses)),
        "truncated": one.truncated,
        "sample_set": one.sample_set,
    }


def _chances_row(chances: Chances) -> Row:
    with np.errstate(divide="ignore"):
        logs = np.log(chances.p_TPW).astype(np.float32)
    rounded = (logs.view(np.uint32) >> DROPPED << DROPPED).view(np.float32)
    return {
        **_problems(chances.problem_ids),
        "ways": [*chances.ways],
        "guesses": sorted(chances.guesses),
        "temperatures": [*chances.temperatures],
        "log_chances": rounded.ravel(),
    }


def _problems(ids: tuple[str, ...]) -> Row:
    key = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
    return {"problem_set": key, "problems": [*ids]}


def _result(
    part: Part,
    by_key: Mapping[Key, Sequence[Row]],
    planned: Callable[[Replicate, Row], bool] | None,
) -> PartResult:
    methods, read = [], {}
    for trial in part.trials:
        every = [
            (one, by_key.get((part.suite.name, trial.label, one.start, one.seed + 1), ()))
            for one in trial.replicates
        ]
        if planned is not None:
            every = [(one, [row for row in rows if planned(one, row)]) for one, rows in every]
        if part.suite.exact:
            reading = part.suite.exact_reading
            each = (_read_replicate(one, rows, reading.at(one.config)) for one, rows in every)
            read[trial.label] = [one for one in each if one is not None]
        if trial.label not in part.same:
            measured = [by for _, rows in every if (by := _measured(rows))]
            methods.append(MethodResult(trial, measured))
    return PartResult(part.suite, methods, part.same, read)


def _measured(rows: Sequence[Row]) -> dict[str, tuple[Measured, ...]]:
    found: dict[str, list[Measured]] = {}
    for row in sorted((row for row in rows if row["n"]), key=lambda row: row["evaluation_seed"]):
        ids, n_P = row["problems"], np.array(row["n"], np.int64)
        grades, seed = None, row["evaluation_seed"]
        if row["grades"] is not None:
            width = int(n_P.max())
            bits = np.unpackbits(np.frombuffer(row["grades"], np.uint8), count=len(ids) * width)
            grades = SampleGrades((seed,), bits.reshape(len(ids), width).astype(bool))
        counts = Counts(ids, n_P, np.array(row["c"], np.int64), grades)
        one = Measured(
            row["policy"], row["benchmark"], seed, counts, json.loads(row["statuses"]),
            row["truncated"], row["sample_set"],
        )  # fmt: skip
        found.setdefault(one.benchmark, []).append(one)
    return {name: tuple(seeds) for name, seeds in found.items()}


def _read_replicate(
    one: Replicate, rows: Sequence[Row], temperatures: Sequence[float]
) -> ReadReplicate | None:
    """Return the chances of a replicate at these temperatures; None if a temperature is missing."""
    end: dict[str, Chances] = {}
    steps: dict[int, dict[str, Chances]] = {}
    for row in rows:
        if not row["ways"]:
            continue
        if row["step"] is not None:
            steps.setdefault(row["step"], {})[row["benchmark"]] = _chances(row)
        elif {*temperatures} <= {*row["temperatures"]}:
            end[row["benchmark"]] = _chances(row).over(temperatures)
    return ReadReplicate(one, end, dict(sorted(steps.items()))) if end else None


def _chances(row: Row) -> Chances:
    shape = (len(row["temperatures"]), len(row["problems"]), len(row["ways"]))
    logs = np.array(row["log_chances"], np.float64)
    p_TPW: FloatArray = np.exp(logs).reshape(shape)
    return Chances(
        row["problems"], tuple(row["ways"]), frozenset(row["guesses"]),
        tuple(row["temperatures"]), p_TPW,
    )  # fmt: skip
