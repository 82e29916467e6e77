"""Problems by name or by path: data sets, groups of them, generators, files with named columns."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.generator import Generated, Generator
from sage_cli.problems.problem import Demonstration, Problem
from sage_cli.problems.registry import (
    Member,
    generated,
    is_file_name,
    members,
    require_known_revisions,
    trained_on,
)
from sage_cli.problems.rows import DataSet, is_number
from sage_cli.problems.sources import local_files, open_source, source_identity
from sage_cli.settings.sections.data import DataSection, FieldsSection, SourceSection
from sage_cli.settings.sections.training import SftSection
from sage_cli.thoughts import unmarked

log = logging.getLogger(__name__)


def load_problems(
    names: str,
    data: DataSection,
    fields: FieldsSection | None = None,
    limit: int | None = None,
    split: str | None = None,
) -> list[Problem]:
    """Return the problems of one data set, of several (`aime,amc23`) or of a file (`mine.jsonl`).

    `fields` names a file's columns; `limit` keeps the first problems of each; `split` is one of
    the Hub's other than the declared. A row that repeats question and gold of an earlier one is
    left out, with a warning.
    Raises DataError for an unknown name, a file or column that isn't there, a problem without
    question or gold (named by its line), and an incomplete copy.
    """
    return [
        problem
        for name in benchmark_names(names)
        for problem in _each_once(name, read_problems(name, data, fields, split))[:limit]
    ]


def read_problems(
    name: str, data: DataSection, fields: FieldsSection | None = None, split: str | None = None
) -> list[Problem]:
    """Return one problem for every row of one data set or file, repetitions included."""
    require_known_revisions(data.revisions)
    benchmark = Path(name).name if is_file_name(name) else name
    problems = [
        replace(problem, benchmark=benchmark)
        for member in members(name, split)
        for problem in _problems(member, data, fields)
    ]
    if not problems:
        raise DataError(f"{name} holds no problems", "check the file")
    return problems


def worked_rows(source: SourceSection, data: DataSection) -> Iterator[tuple[Problem, str | None]]:
    """Yield each row's problem and its working-out, None where the user named no column of them."""
    for member in members(source.name, source.split):
        declared = member if isinstance(member, DataSet) and member.question else None
        if isinstance(member, Generated) or (declared and not declared.working):
            raise DataError(
                f"{source.name} has no worked solutions to learn from",
                "name a source that has (arithmetic, openmathreasoning-mini, asdiv, svamp), or a "
                "file, and its column with data.sft.fields.working",
            )
        if not declared and source.fields.working is None:
            log.warning("%s: SFT learns golds alone: data.sft.fields.working is null", source.name)
        yield from open_source(member, data, source.fields).worked()


def benchmark_names(names: str) -> list[str]:
    """`aime,amc23` -> ["aime", "amc23"], each known or a path; DataError otherwise."""
    listed = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        raise DataError("no benchmark is named", "name one, as aime, or several, as aime,amc23")
    for name in listed:
        members(name)
    return listed


def _problems(member: Member, data: DataSection, fields: FieldsSection | None) -> list[Problem]:
    if isinstance(member, Generated):
        return member.made(data).problems(member.split)
    source = open_source(member, data, fields)
    problems = list(source.problems())
    if isinstance(member, DataSet) and member.count not in (None, len(problems)):
        raise DataError(
            f"{member.name} has {len(problems)} problems where {member.count} are expected "
            f"({source.origin})",
            "complete the copy: an average over missing problems means nothing",
        )
    return problems


def _each_once(name: str, problems: list[Problem]) -> list[Problem]:
    once: dict[str, Problem] = {}
    for problem in problems:
        once.setdefault(problem.id, problem)
    if len(once) < len(problems):
        log.warning("%s: %d repeated rows left out", name, len(problems) - len(once))
    return list(once.values())


def two_golds(problems: Sequence[Problem]) -> tuple[Problem, Problem] | None:
    """Return two problems that ask one question and have different golds; None without any."""
    first: dict[str, Problem] = {}
    for problem in problems:
        earlier = first.setdefault(" ".join(problem.question.split()), problem)
        if earlier.gold != problem.gold:
            return earlier, problem
    return None


def load_training_problems(data: DataSection) -> list[Problem]:
    """Return the problems of `data.rl`: the first `limit` that it keeps, each problem once.

    Of a generator that holds problems out, as `arithmetic`, they are the training split's.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    source = data.rl
    problems = load_problems(trained_on(source.name), data, source.fields, split=source.split)
    if pair := two_golds(problems):
        first, second = pair
        log.warning(
            "%s has one question with two golds, and one of them pays for a wrong answer: %s says "
            "%s, %s says %s", source.name, first.id, first.gold, second.id, second.gold
        )  # fmt: skip
    chosen = [p for p in problems if not source.numeric_only or is_number(p.golds[0])][
        : source.limit
    ]
    if not chosen:
        raise ConfigurationError(
            f"no problem of {source.name} has a numeric gold, and data.rl.numeric_only is true",
            "use --set data.rl.numeric_only=false, or name another source",
        )
    return chosen


def is_here(name: str, data: DataSection, split: str | None = None) -> bool:
    """Return True if the rows of a source can be read without the Hub."""
    sources = members(name, split)
    return all(not isinstance(source, DataSet) or local_files(source, data) for source in sources)


def check_rows(data: DataSection, sft: SftSection | None = None) -> None:
    """Read files of `data.rl`, or of `data.sft` for `sft`. Raises what training would raise."""
    source = data.rl if sft is None else data.sft
    if generated(source.name) is None and is_here(source.name, data, source.split):
        _ = load_training_problems(data) if sft is None else load_demonstrations(data, sft)


N = 13
"""Words in a shared passage, as in Brown et al. 2020 (arXiv 2005.14165), Appendix C."""
BOILERPLATE = 10
"""A passage in more benchmark problems than this is wording, not contamination (ibid.)."""
_WORD = re.compile(r"[^\W_]+")

Passage = tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """A training problem that a benchmark problem repeats.

    `share` is the part of the benchmark problem's passages of 13 words that the training problem
    has too; 1 where the normalised texts are the same, which `same` says.
    """

    train: Problem
    bench: Problem
    same: bool
    share: float


def normalised(text: str) -> Passage:
    """Letters and digits in lower case, as words: spacing, punctuation and dollar signs don't count."""  # noqa: E501
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def find_overlap(train: Sequence[Problem], bench: Sequence[Problem]) -> list[Match]:
    """Return all pairs with the same normalised question or a common passage, in bench's order.

    Questions shorter than 13 words match as a whole or not at all.
    """
    texts_P = [normalised(problem.question) for problem in bench]
    passages_P = [_passages(text) for text in texts_P]
    frequency = Counter(passage for passages in passages_P for passage in passages)
    with_text, with_passage = defaultdict(set), defaultdict(set)
    for index, (text, passages) in enumerate(zip(texts_P, passages_P, strict=True)):
        passages_P[index] = {passage for passage in passages if frequency[passage] <= BOILERPLATE}
        with_text[text].add(index)
        for passage in passages_P[index]:
            with_passage[passage].add(index)
    matches: list[tuple[int, Match]] = []
    for problem in train:
        text = normalised(problem.question)
        passages, same = _passages(text), with_text.get(text, set())
        shared = Counter(i for passage in passages for i in with_passage.get(passage, ()))
        for index in same | shared.keys():
            share = 1.0 if index in same else shared[index] / len(passages_P[index])
            matches.append((index, Match(problem, bench[index], index in same, share)))
    return [match for _, match in sorted(matches, key=lambda pair: (pair[0], -pair[1].share))]


def duplicates(problems: Sequence[Problem]) -> list[list[Problem]]:
    """Return groups of problems whose normalised questions are the same, whatever their golds."""
    groups: dict[Passage, list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[normalised(problem.question)].append(problem)
    return [group for group in groups.values() if len(group) > 1]


def _passages(words: Passage) -> set[Passage]:
    return {words[start : start + N] for start in range(len(words) - N + 1)}


def load_demonstrations(
    data: DataSection, sft: SftSection, length: Callable[[Demonstration], int] | None = None
) -> list[Demonstration]:
    """Return the demonstrations that `data.sft` names, in the order of their source.

    `length` counts the tokens of what `data.sft.measured` names; those above
    `data.sft.max_prompt_share` of `sft.max_length` are left out, none without it. Generators make
    as many as are wanted: `data.sft.limit`, or as many as `sft.steps` takes in.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    generator = demonstrator(data)
    if generator is not None:
        count = wanted(data, sft)
        return generator.demonstrations(count, sft.batch_size)
    demonstrations = list(_suitable(data, sft.max_length, length))[: data.sft.limit]
    if not demonstrations:
        raise ConfigurationError(
            f"no demonstration of {data.sft.name} is left by data.sft.numeric_only and "
            "data.sft.max_prompt_share",
            "loosen them, or name another source",
        )
    return demonstrations


def demonstrator(data: DataSection) -> Generator | None:
    """Return the generator that `data.sft` names, itself or by its training split; else None."""
    entry = generated(data.sft.name) if data.sft.split is None else None
    if entry is None or entry.split == "validation" or not entry.generator.demonstrates():
        return None
    return entry.made(data)


def wanted(data: DataSection, sft: SftSection) -> int:
    """Return the number of generated demonstrations; ConfigurationError if no setting gives one."""
    if data.sft.limit is not None:
        return data.sft.limit
    if sft.steps is None:
        raise ConfigurationError(
            "generated demonstrations never end, and neither sft.steps nor data.sft.limit is set",
            "use --set sft.steps=850",
        )
    return sft.steps * sft.batch_size


def _suitable(
    data: DataSection, max_length: int, length: Callable[[Demonstration], int] | None
) -> Iterator[Demonstration]:
    source = data.sft
    longest = source.max_prompt_share * max_length
    for problem, working in worked_rows(source, data):
        if source.numeric_only and not is_number(problem.golds[0]):
            continue
        shown = None if working is None else unmarked(working)
        demonstration = Demonstration(problem.question, shown, problem.golds[0])
        if length is None or source.max_prompt_share == 1 or length(demonstration) <= longest:
            yield demonstration


def problems_identity(
    names: str,
    data: DataSection,
    fields: FieldsSection | None = None,
    limit: int | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Return the determinants of `load_problems`. Raises DataError as it does."""
    rows = [_members(name, data, fields, split) for name in benchmark_names(names)]
    return {"problems": rows, "limit": limit}


def training_identity(data: DataSection) -> dict[str, Any]:
    """Return the determinants of `load_training_problems`."""
    source = data.rl
    identity = problems_identity(
        trained_on(source.name), data, source.fields, source.limit, source.split
    )
    return {**identity, "numeric_only": source.numeric_only}


def demonstrations_identity(data: DataSection, sft: SftSection) -> dict[str, Any]:
    """Return the determinants of `load_demonstrations`, without the tokenizer's."""
    source = data.sft
    generator = demonstrator(data)
    if generator is not None:
        order = {"count": wanted(data, sft), "batch_size": sft.batch_size}
        return {"demonstrations": generator.identity(), **order}
    share = source.max_prompt_share
    return {
        "demonstrations": _members(source.name, data, source.fields, source.split),
        "limit": source.limit,
        "numeric_only": source.numeric_only,
        "longest": None if share == 1 else [source.measured, share * sft.max_length],
    }


def _members(
    name: str, data: DataSection, fields: FieldsSection | None, split: str | None
) -> list[dict[str, Any]]:
    require_known_revisions(data.revisions)
    return [_member(member, data, fields) for member in members(name, split)]


def _member(member: Member, data: DataSection, fields: FieldsSection | None) -> dict[str, Any]:
    if isinstance(member, Generated):
        return {**member.made(data).identity(), "split": member.split}
    return source_identity(member, data, fields)
