"""The published data sets that `sage` knows by name."""

from __future__ import annotations

from collections.abc import Mapping

from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.gold import after_hashes, before_unit, in_last_box, integer, whole

_MATH500 = DataSet(
    "math500", "MATH-500", "HuggingFaceH4/MATH-500", ("test",), ("benchmarks/math500.jsonl",),
    question=(("problem",),), gold=(("answer", whole), ("solution", in_last_box)),
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", count=500,
)  # fmt: skip

_DAPO = DataSet(
    "dapo-math-17k", "DAPO-Math-17k",
    "open-r1/DAPO-Math-17k-Processed", ("train",), ("train/dapo_math_sample.jsonl",),
    question=(("prompt",),), gold=(("solution", whole),), config="en", training=True,
    revision="31dd309567e3da778038cc87d868b6097a3ccf68",
)  # fmt: skip

_ENTRIES: tuple[DataSet | Group, ...] = (
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
        revision="f9810c0439cd3c670ec885d328a2f06a87f3694a",
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
        gold=(("answer", whole), ("solution", in_last_box)), count=272, tolerance=0.01,
        revision="ee46ddc498933b1977577953250ca5c66be64f96",
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
    _DAPO,
    # well beyond the 2,000 rows that Table 8 trains on: repeated rows may push these on
    DataSet(
        "dapo-math-dev", "DAPO-Math-17k, rows 3,001 to 3,100", _DAPO.hub, _DAPO.splits, _DAPO.files,
        _DAPO.question, _DAPO.gold, config=_DAPO.config, rows=(3001, 3100), count=100,
        revision=_DAPO.revision, part_of="dapo-math-17k",
    ),
    # no commit of it is known for sure: data.revisions pins it
    DataSet(
        "openmathreasoning-mini", "OpenMathReasoning-mini",
        "unsloth/OpenMathReasoning-mini", ("cot",),
        ("train/openmathreasoning_mini_sample.jsonl",), question=(("problem",),),
        gold=(("expected_answer", whole),), working="generated_solution", training=True,
    ),
    DataSet(
        "asdiv", "ASDiv", "EleutherAI/asdiv", ("validation",),
        ("train/asdiv.jsonl",), question=(("body", "question"),), gold=(("answer", before_unit),),
        working="formula", revision="8f95807222d87b4c688c3c22a6ba2801e1fa03e2", training=True,
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
)  # fmt: skip

PUBLISHED: Mapping[str, DataSet | Group] = {entry.name: entry for entry in _ENTRIES}


def data_set(name: str) -> DataSet:
    """The published data set called `name`."""
    entry = PUBLISHED[name]
    assert isinstance(entry, DataSet)
    return entry
