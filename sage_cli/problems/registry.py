"""Which data sets `sage` knows by name, and where their rows lie on the Hub and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.gold import (
    GoldRule,
    after_hashes,
    before_unit,
    integer,
    last_boxed,
    whole,
)

Columns = tuple[str, ...]


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    `files` are its local copies below the data folder, all of them needed. `question` and `gold`
    list alternatives, the first whose columns are there counts, because mirrors name columns
    differently; several question columns are joined by a space. `count` is the number of
    problems that a complete copy has; None where copies differ. `revision` is a commit of the
    Hub data set; None takes the newest, and the commit that was read is recorded.
    """

    name: str
    title: str
    hub: str
    splits: tuple[str, ...]
    files: tuple[str, ...]
    question: tuple[Columns, ...]
    gold: tuple[tuple[str, GoldRule], ...]
    config: str | None = None
    revision: str | None = None
    working: str | None = None
    where: tuple[str, Any] | None = None
    count: int | None = None
    judge: str = "math"
    tolerance: float | None = None
    training: bool = False
    part_of: str | None = None
    """Problems carry this data set's name in their ids, so that both share their samples."""


@dataclass(frozen=True)
class Group:
    """Several data sets reported as one benchmark."""

    name: str
    title: str
    members: tuple[str, ...]
    count: int
    training: bool = field(default=False, init=False)


@dataclass(frozen=True)
class Generated:
    """Problems that are made from a seed and need no file."""

    name: str
    title: str
    judge: str = "math"
    tolerance: float | None = None
    training: bool = False


@dataclass(frozen=True)
class Derived:
    """Problems chosen from the rows of other data sets, `members`, by a rule of ours."""

    name: str
    title: str
    members: tuple[str, ...]
    judge: str = "math"
    tolerance: float | None = None
    training: bool = False


Entry = DataSet | Group | Generated | Derived

_MATH500 = DataSet(
    "math500", "MATH-500", "HuggingFaceH4/MATH-500", ("test",), ("benchmarks/math500.jsonl",),
    question=(("problem",),), gold=(("answer", whole), ("solution", last_boxed)),
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", count=500,
)  # fmt: skip

_ENTRIES: tuple[Entry, ...] = (
    DataSet(
        "aime24", "AIME 2024", "HuggingFaceH4/aime_2024", ("train",),
        ("benchmarks/aime2024.jsonl",), question=(("problem",),), gold=(("answer", integer),),
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a", count=30,
    ),
    DataSet(
        "aime25", "AIME 2025", "math-ai/aime25", ("test",),
        ("benchmarks/aime2025-I.jsonl", "benchmarks/aime2025-II.jsonl"),
        question=(("problem",),), gold=(("answer", integer),),
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b", count=30,
    ),
    Group("aime", "AIME 2024 and 2025", ("aime24", "aime25"), count=60),
    DataSet(
        "amc23", "AMC 2023", "zwhe99/amc23", ("test",), ("benchmarks/amc23.jsonl",),
        question=(("problem",), ("question",)), gold=(("answer", integer),), count=40,
    ),
    _MATH500,
    DataSet(
        "math500-l5", "MATH-500, level 5", _MATH500.hub, _MATH500.splits, _MATH500.files,
        _MATH500.question, _MATH500.gold, revision=_MATH500.revision,
        where=("level", 5), count=134, part_of="math500",
    ),
    DataSet(
        "minerva", "Minerva, OpenCourseWare", "math-ai/minervamath", ("test",),
        ("benchmarks/minerva_math.jsonl",), question=(("problem",), ("question",)),
        gold=(("answer", whole), ("solution", last_boxed)), count=272, tolerance=0.01,
    ),
    DataSet(
        "gsm8k", "GSM8K, test", "openai/gsm8k", ("test",), ("benchmarks/gsm8k_test.jsonl",),
        question=(("question",),), gold=(("answer", after_hashes),), config="main",
        revision="e53f048856ff4f594e959d75785d2c2d37b678ee", count=1319,
    ),
    DataSet(
        "kk", "Knights and Knaves", "K-and-K/knights-and-knaves",
        tuple(f"{people}ppl" for people in range(2, 9)), ("benchmarks/knights_and_knaves.jsonl",),
        question=(("quiz",),), gold=(("solution_text", whole),), config="test",
        revision="2f68547989981b1af37cb3dde5fdefa847aa8619", judge="roles",
    ),
    Generated("kk-generated", "Knights and Knaves", judge="roles"),
    Generated("arithmetic", "Two-digit products"),
    Generated("arithmetic-dev", "Two-digit products"),
    Generated("arithmetic-train", "Two-digit products", training=True),
    DataSet(
        "dapo-math-17k", "DAPO-Math-17k",
        "open-r1/DAPO-Math-17k-Processed", ("train",), ("train/dapo_math_sample.jsonl",),
        question=(("prompt",),), gold=(("solution", whole),), config="en", training=True,
    ),
    DataSet(
        "openmathreasoning-mini", "OpenMathReasoning-mini",
        "unsloth/OpenMathReasoning-mini", ("cot",),
        ("train/openmathreasoning_mini_sample.jsonl",), question=(("problem",),),
        gold=(("expected_answer", whole),), working="generated_solution", training=True,
    ),
    DataSet(
        "asdiv", "ASDiv", "EleutherAI/asdiv", ("validation",),
        ("train/asdiv.jsonl",), question=(("body", "question"),), gold=(("answer", before_unit),),
        working="formula", training=True,
    ),
    DataSet(
        "mawps", "MAWPS", "MU-NLPC/Calc-mawps", ("train",), ("train/mawps.jsonl",),
        question=(("input",), ("question",)), gold=(("target", whole), ("result", whole)),
        revision="38c10053efeafd20ab6ff4e08c3ec17de26c19b7", training=True,
    ),
    DataSet(
        "svamp", "SVAMP", "ChilleD/SVAMP", ("train", "test"),
        ("train/svamp.jsonl",), question=(("Body", "Question"),), gold=(("Answer", whole),),
        working="Equation", revision="5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef", training=True,
    ),
    Derived("word-problems", "ASDiv and SVAMP, held out", ("asdiv", "svamp")),
    Derived("word-problems-dev", "ASDiv and SVAMP, development", ("asdiv", "svamp")),
    Derived("word-problems-train", "ASDiv and SVAMP, the rest", ("asdiv", "svamp"), training=True),
)  # fmt: skip

REGISTRY: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Entry:
    """The entry called `name`; DataError with the nearest name when there is none."""
    if name in REGISTRY:
        return REGISTRY[name]
    near = get_close_matches(name, REGISTRY, n=1, cutoff=0.5)
    raise DataError(
        f"unknown benchmark '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"known: {', '.join(REGISTRY)}; or a path that ends in .jsonl or .parquet",
    )
