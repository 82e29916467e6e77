"""The published data sets that `sage` knows by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from sage_cli.errors import NEAR, DataError
from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.golds import after_hashes, before_unit, in_last_box, integer, whole
from sage_cli.problems.knights_knaves import KnightsKnaves
from sage_cli.problems.problem import SPLITS, Generated, Generator
from sage_cli.problems.row_files import SUFFIXES
from sage_cli.settings.data import DataSection

_MATH500 = DataSet(
    "math500",
    "MATH-500",
    "HuggingFaceH4/MATH-500",
    ("test",),
    ("benchmarks/math500.jsonl",),
    question=(("problem",),),
    gold=(("answer", whole), ("solution", in_last_box)),
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    count=500,
)

_DAPO = DataSet(
    "dapo-math-17k",
    "DAPO-Math-17k",
    "open-r1/DAPO-Math-17k-Processed",
    ("train",),
    ("train/dapo_math_sample.jsonl",),
    question=(("prompt",),),
    gold=(("solution", whole),),
    config="en",
    training=True,
    revision="31dd309567e3da778038cc87d868b6097a3ccf68",
)

_ENTRIES: tuple[DataSet | Group, ...] = (
    DataSet(
        "aime24",
        "AIME 2024",
        "HuggingFaceH4/aime_2024",
        ("train",),
        ("benchmarks/aime2024.jsonl",),
        question=(("problem",),),
        gold=(("answer", integer),),
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        count=30,
    ),
    DataSet(
        "aime25",
        "AIME 2025",
        "math-ai/aime25",
        ("test",),
        ("benchmarks/aime2025-I.jsonl", "benchmarks/aime2025-II.jsonl"),
        question=(("problem",),),
        gold=(("answer", integer),),
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        count=30,
    ),
    Group("aime", "AIME 2024 and 2025", ("aime24", "aime25"), count=60),
    # no commit is known for sure of data sets without a revision: data.revisions pins them
    DataSet(
        "aime26",
        "AIME 2026",
        "MathArena/aime_2026",
        ("train",),
        ("benchmarks/aime2026.jsonl",),
        question=(("problem",),),
        gold=(("answer", integer),),
        count=30,
    ),
    *(
        DataSet(
            f"hmmt25-{month}",
            f"HMMT, {title} 2025",
            f"MathArena/hmmt_{month}_2025",
            ("train",),
            (f"benchmarks/hmmt_{month}_2025.jsonl",),
            question=(("problem",),),
            gold=(("answer", whole),),
            count=30,
        )
        for month, title in (("feb", "February"), ("nov", "November"))
    ),
    Group("hmmt25", "HMMT 2025", ("hmmt25-feb", "hmmt25-nov"), count=60),
    DataSet(
        "olympiadbench",
        "OlympiadBench, English mathematics in text with one answer",
        "Hothan/OlympiadBench",
        ("train",),
        ("benchmarks/olympiadbench.jsonl",),
        question=(("question",),),
        gold=(("final_answer.0", whole),),
        config="OE_TO_maths_en_COMP",
        where=("is_multiple_answer", False),
        count=581,
    ),
    DataSet(
        "amc23",
        "AMC 2023",
        "zwhe99/amc23",
        ("test",),
        ("benchmarks/amc23.jsonl",),
        question=(("problem",), ("question",)),
        gold=(("answer", integer),),
        count=40,
        revision="f9810c0439cd3c670ec885d328a2f06a87f3694a",
    ),
    _MATH500,
    DataSet(
        "math500-l5",
        "MATH-500, level 5",
        _MATH500.hub,
        _MATH500.splits,
        _MATH500.files,
        _MATH500.question,
        _MATH500.gold,
        revision=_MATH500.revision,
        where=("level", 5),
        count=134,
        part_of="math500",
    ),
    DataSet(
        "minerva",
        "Minerva, OpenCourseWare",
        "math-ai/minervamath",
        ("test",),
        ("benchmarks/minerva_math.jsonl",),
        question=(("problem",), ("question",)),
        gold=(("answer", whole), ("solution", in_last_box)),
        count=272,
        tolerance=0.01,
        revision="ee46ddc498933b1977577953250ca5c66be64f96",
    ),
    DataSet(
        "gsm8k",
        "GSM8K, test",
        "openai/gsm8k",
        ("test",),
        ("benchmarks/gsm8k_test.jsonl",),
        question=(("question",),),
        gold=(("answer", after_hashes),),
        config="main",
        revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
        count=1319,
    ),
    DataSet(
        "kk",
        "Knights and Knaves",
        "K-and-K/knights-and-knaves",
        tuple(f"{people}ppl" for people in range(2, 9)),
        ("benchmarks/knights_and_knaves.jsonl",),
        question=(("quiz",),),
        gold=(("solution_text", whole),),
        config="test",
        revision="2f68547989981b1af37cb3dde5fdefa847aa8619",
        judge="roles",
    ),
    _DAPO,
    # well beyond the 2,000 rows that Table 8 trains on: repeated rows may push these on
    DataSet(
        "dapo-math-dev",
        "DAPO-Math-17k, rows 3,001 to 3,100",
        _DAPO.hub,
        _DAPO.splits,
        _DAPO.files,
        _DAPO.question,
        _DAPO.gold,
        config=_DAPO.config,
        rows=(3001, 3100),
        count=100,
        revision=_DAPO.revision,
        part_of="dapo-math-17k",
    ),
    DataSet(
        "openmathreasoning-mini",
        "OpenMathReasoning-mini",
        "unsloth/OpenMathReasoning-mini",
        ("cot",),
        ("train/openmathreasoning_mini_sample.jsonl",),
        question=(("problem",),),
        gold=(("expected_answer", whole),),
        working="generated_solution",
        training=True,
    ),
    DataSet(
        "asdiv",
        "ASDiv",
        "EleutherAI/asdiv",
        ("validation",),
        ("train/asdiv.jsonl",),
        question=(("body", "question"),),
        gold=(("answer", before_unit),),
        working="formula",
        revision="8f95807222d87b4c688c3c22a6ba2801e1fa03e2",
        training=True,
    ),
    DataSet(
        "mawps",
        "MAWPS",
        "MU-NLPC/Calc-mawps",
        ("train",),
        ("train/mawps.jsonl",),
        question=(("input",), ("question",)),
        gold=(("target", whole), ("result", whole)),
        revision="38c10053efeafd20ab6ff4e08c3ec17de26c19b7",
        training=True,
    ),
    DataSet(
        "svamp",
        "SVAMP",
        "ChilleD/SVAMP",
        ("train", "test"),
        ("train/svamp.jsonl",),
        question=(("Body", "Question"),),
        gold=(("Answer", whole),),
        working="Equation",
        revision="5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
        training=True,
    ),
)

PUBLISHED: Mapping[str, DataSet | Group] = {entry.name: entry for entry in _ENTRIES}
GENERATORS: tuple[type[Generator], ...] = (Arithmetic, KnightsKnaves)
"""A new one is a file of this folder, a section of `data` and a name here."""
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:/([\w.-]+))?(?::([\w.-]+))?")
"""ORG/NAME, and perhaps a configuration and a split."""
Entry = DataSet | Group | Generated
Member = Path | DataSet | Generated
"""What problems are read from in the end: a file, a data set, a split of a generator."""
ENTRIES: Mapping[str, Entry] = {
    **PUBLISHED,
    **{entry.name: entry for kind in GENERATORS for entry in kind.entries()},
}
"""All that is known by name."""


def data_set(name: str) -> DataSet:
    """Return the published data set called `name`."""
    entry = PUBLISHED[name]
    assert isinstance(entry, DataSet)
    return entry


def find(name: str) -> Entry:
    """Return the entry called `name`, or the data set of the Hub; DataError for an unknown name."""
    if name in ENTRIES:
        return ENTRIES[name]
    whole, _, settings = name.partition(":")
    if settings and "/" not in whole and isinstance(entry := find(whole), Generated):
        return replace(entry, settings=settings)
    if not Path(name).exists() and (named := _HUB_NAME.fullmatch(name)):
        return _on_hub(name, *named.groups())
    near = get_close_matches(name, ENTRIES, n=1, cutoff=NEAR)
    raise DataError(
        f"unknown benchmark '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"valid names: {', '.join(ENTRIES)}; or a path that ends in {', '.join(SUFFIXES)}; or a "
        "Hub data set, ORG/NAME or ORG/NAME/CONFIGURATION:SPLIT",
    )


def _on_hub(name: str, hub: str, config: str | None, split: str | None) -> DataSet:
    """Return a data set of the Hub that nobody declared: its columns are those that a user names.

    Raises DataError for one that is declared, unless its configuration or split is named.
    """
    entries = [f"{e.name} ({e.title})" for e in _ENTRIES if isinstance(e, DataSet) and e.hub == hub]
    if entries and not (config or split):
        raise DataError(
            f"{hub} is known as {' and '.join(entries)}",
            f"use that name, or {hub}/CONFIGURATION:SPLIT to choose the columns yourself",
        )
    splits = (split,) if split else ()
    return DataSet(name, name, hub, splits, (), (), (), config=config, part_of=hub)


def members(name: str, split: str | None = None) -> list[Member]:
    """Return the sources that `name` stands for: the file, the entry, or the members of a group.

    Of a data set, `split` takes another of its splits on the Hub than the declared ones. Raises
    DataError for an unknown name, and for the split of what is not a data set.
    """
    entry = Path(name) if is_file_name(name) else find(name)
    if split is not None:
        if not isinstance(entry, DataSet):
            raise DataError(
                f"the split '{split}' of {name} is asked for, and only data sets of the Hub have "
                "splits to choose from",
                "leave out the split",
            )
        return [entry.at(split)]
    if isinstance(entry, Path):
        return [entry]
    if isinstance(entry, Group):
        return [member for part in entry.members for member in members(part)]
    return [entry]


def require_known_revisions(revisions: Collection[str]) -> None:
    """Raise DataError if a name in `data.revisions` is that of no data set of the Hub."""
    for name in revisions:
        if not isinstance(find(name), DataSet):
            raise DataError(
                f"data.revisions has {name}, which is not a Hub data set",
                "name data sets of `sage data list`, each part of a group by itself",
            )


def trained_on(name: str) -> str:
    """Return the name that training on `name` reads: of a generator its training split."""
    entry, (_, colon, settings) = generated(name), name.partition(":")
    if entry is None or entry.split == "validation" or "training" not in entry.generator.splits:
        return name
    return entry.generator.name + SPLITS["training"] + colon + settings


def shown_name(name: str, data: DataSection) -> str:
    """Return a benchmark's name, of generated problems with what decides them: see `name_in`."""
    entry = generated(name)
    return name if entry is None else entry.made(data).name_in(entry.split)


def generated(name: str) -> Generated | None:
    """Return the generator's split that `name` is; None for files, data sets and groups."""
    entry = None if is_file_name(name) else find(name)
    return entry if isinstance(entry, Generated) else None


def file_and_part(name: str) -> tuple[str, str]:
    """Return `train.jsonl` and `dev` of `train.jsonl:dev`; a whole file has the part ''."""
    file, _, part = name.rpartition(":")
    return (file, part) if part in ("dev", "train") and file else (name, "")


def is_file_name(name: str) -> bool:
    """Return True if `name` is the path of a file, or of its part, not a registered name."""
    return file_and_part(name)[0].endswith(SUFFIXES)


def source_of(name: str) -> str:
    """Return the file, data set or generator that `name` is a part of, or `name` itself."""
    if is_file_name(name):
        return file_and_part(name)[0]
    entry = find(name)
    if isinstance(entry, Generated):
        return entry.generator.name
    return (entry.part_of if isinstance(entry, DataSet) else None) or name
