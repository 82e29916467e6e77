"""Problems by name or by path: data sets, groups of them, generators, files with named columns.

The rows of a file or data set come from a local copy where there is one, else from the Hub.
"""

from __future__ import annotations

import logging
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.problem import Demonstration, Generated, Generator, Problem
from sage_cli.problems.registry import (
    Member,
    file_and_part,
    generated,
    is_file_name,
    members,
    require_known_revisions,
    trained_on,
)
from sage_cli.problems.row_files import Row, content, read_file
from sage_cli.problems.rows import DataSet, Layout, is_number, is_of_part
from sage_cli.settings.inputs import DataSection, FieldsSection, SourceSection
from sage_cli.settings.training import SftSection
from sage_cli.solution_text import unmarked

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


def check_rows(data: DataSection, sft: SftSection | None = None) -> str:
    """Read files of `data.rl`, or of `data.sft` for `sft`; return a note where none is here.

    Raises what training would raise.
    """
    source = data.rl if sft is None else data.sft
    if not is_here(source.name, data, source.split):
        return " (not read: it has no local copy; `sage doctor` reads it)"
    if generated(source.name) is None:
        _ = load_training_problems(data) if sft is None else load_demonstrations(data, sft)
    return ""


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


_COMMIT = re.compile(r"@([0-9a-f]{40})/")
_SHA = re.compile("[0-9a-f]{40}")
_TIMEOUT_S = 10.0


def read_hub(data_set: DataSet) -> tuple[str, Iterator[Row]]:
    """The commit of `data_set` that was read (`unknown` when a cache doesn't tell), and its rows.

    Raises DataError when neither the Hub nor its local cache has it.
    """
    import datasets

    failures: list[Exception] = []
    for source in (data_set.hub, *_snapshot(data_set)):
        try:
            revision = None if failures else _resolve(data_set)
            load = partial(datasets.load_dataset, source, data_set.config, revision=revision)
            splits = {name: load(split=name) for name in data_set.splits} or dict(load())
            break
        except Exception as error:  # the Hub's clients fail in a dozen unrelated classes
            failures.append(error)
    else:
        reason = (str(failures[0]).splitlines() or [type(failures[0]).__name__])[0]
        refused = DataError(f"{data_set.hub} couldn't be read from the Hub: {reason}")
        raise refused from failures[0]
    if len(splits) > max(1, len(data_set.splits)):
        raise DataError(f"{data_set.hub} has the splits {', '.join(splits)}")
    if failures:
        log.warning("%s is read from the Hub's cache, %s", data_set.hub, source)
        revision = Path(source).name
    rows = (
        (f"{data_set.hub}, {name}, row {number}", dict(row))
        for name, split in splits.items()
        for number, row in enumerate(split, 1)
    )
    return revision or _cached_commit(next(iter(splits.values()))), rows


def _snapshot(data_set: DataSet) -> list[str]:
    """Return the folder that the Hub's local cache has of a data set, if any."""
    folder = _cache_of(data_set) / "snapshots" / str(known_commit(data_set))
    return [str(folder)] if folder.is_dir() else []


def _cache_of(data_set: DataSet) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("datasets--" + data_set.hub.replace("/", "--"))


def known_commit(data_set: DataSet) -> str | None:
    """Return the commit that will be read, as far as it can be told without the network.

    The pinned one; else the one that the Hub's local cache holds, the newest of several; else
    None. What is pinned to a tag or branch counts as not pinned.
    """
    if data_set.revision is not None and _SHA.fullmatch(data_set.revision):
        return data_set.revision
    snapshots = _cache_of(data_set).glob("snapshots/*")
    cached = [path for path in snapshots if _SHA.fullmatch(path.name)]
    return max(cached, key=lambda path: path.stat().st_mtime_ns).name if cached else None


def _resolve(data_set: DataSet) -> str | None:
    """The commit to read. Asking first fails at once where loading would retry for half a minute.

    With HF_HUB_OFFLINE set the cache decides.
    """
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return data_set.revision
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    info = HfApi().dataset_info(data_set.hub, revision=data_set.revision, timeout=_TIMEOUT_S)
    return info.sha


def _cached_commit(split: object) -> str:
    checksums = getattr(getattr(split, "info", None), "download_checksums", None) or {}
    commit = _COMMIT.search(" ".join(checksums))
    return commit[1] if commit else "unknown"


ROOT_VARIABLE = "SAGE_DATA"
_DIGITS = 12
"""Hexadecimal digits by which an origin names a file's content."""


@dataclass(frozen=True)
class Source:
    """Rows, what their columns hold, and where they came from: files with hashes, or a Hub commit."""  # noqa: E501

    layout: Layout
    origin: str
    rows: Iterator[Row]

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for every row. Raises DataError that names the row which isn't one."""
        return (self.layout.problem(row, self.origin) for row in self.rows)

    def worked(self) -> Iterator[tuple[Problem, str | None]]:
        """Yield every row's problem and working-out, None where no column of them is named."""
        return (
            (self.layout.problem(row, self.origin), self.layout.working_out(row))
            for row in self.rows
        )


def open_source(
    source: Path | DataSet, data: DataSection, fields: FieldsSection | None = None
) -> Source:
    """Return the rows of a file, whose columns `fields` names, or of a data set.

    Raises DataError that says which file to put where when there is neither a local copy nor
    a Hub that answers.
    """
    if isinstance(source, Path):
        path, part, layout = _file(source, fields)
        rows = read_file(path)
        if not part:
            return Source(layout, _origin([path]), rows)
        chosen = (row for row in rows if is_of_part(layout.problem(row, "").question, part))
        return Source(layout, f"{_origin([path])}:{part}", chosen)
    origin, rows = _rows(source.pinned(data.revisions), data)
    if source.rows is not None:
        first, last = source.rows
        rows = islice(rows, first - 1, last)
    layout = Layout.of_data_set(source, fields)
    chosen = (row for row in rows if _is_chosen(row, source))
    if source.question:
        return Source(layout, origin, chosen)
    read = list(chosen)
    return Source(layout.found_in(read, source.name), origin, iter(read))


def _file(source: Path, fields: FieldsSection | None) -> tuple[Path, str, Layout]:
    """Return the file that is read for `source`, the part of it that is meant, and its columns."""
    name, part = file_and_part(str(source))
    path = Path(name)
    return path, part, _file_layout(path, fields or FieldsSection(), content(path))


def source_identity(
    source: Path | DataSet, data: DataSection, fields: FieldsSection | None = None
) -> dict[str, Any]:
    """Return the determinants of the rows, as plain JSON.

    The content of files and where their rows have questions and golds, or the Hub's id and commit;
    `commit` is None while nothing says which one will be read. Raises DataError as reading does.
    """
    if isinstance(source, Path):
        path, part, layout = _file(source, fields)
        whole = {"file": path.name, "content": content(path), "columns": layout.columns()}
        return whole | ({"part": part} if part else {})
    columns = Layout.of_data_set(source, fields).columns()
    where = None if source.where is None else list(source.where)
    declared = {"data_set": source.name, "columns": columns, "where": where}
    if source.rows is not None:
        declared["rows"] = list(source.rows)
    files = local_files(source, data)
    if files:
        return {**declared, "content": [content(path) for path in files]}
    hub = {"hub": source.hub, "config": source.config, "splits": list(source.splits)}
    return {**declared, **hub, "commit": known_commit(source.pinned(data.revisions))}


@lru_cache(maxsize=64)
def _file_layout(path: Path, fields: FieldsSection, content: str) -> Layout:  # noqa: ARG001
    """Return the layout of a file's rows, found once for a content."""
    return Layout.of_file(path.name, fields).found_in(list(read_file(path)), str(path))


def local_files(data_set: DataSet, data: DataSection) -> list[Path]:
    """The local copy of `data_set`, as JSONL or Parquet; empty unless every file is there."""
    root = data_root(data)
    if root is None:
        return []
    if not root.is_dir():
        raise DataError(
            f"the data folder {root} isn't there",
            f"correct data.root or {ROOT_VARIABLE}, or leave both out to read from the Hub",
        )
    copies = [_either_kind(root / name) for name in data_set.files]
    return [path for path in copies if path] if all(copies) else []


def data_root(data: DataSection) -> Path | None:
    """`data.root`, or what SAGE_DATA names, or None."""
    if data.root is not None:
        return data.root
    folder = os.environ.get(ROOT_VARIABLE)
    return Path(folder) if folder else None


def _rows(data_set: DataSet, data: DataSection) -> tuple[str, Iterator[Row]]:
    files = local_files(data_set, data)
    if files:
        return _origin(files), chain.from_iterable(map(read_file, files))
    try:
        commit, rows = read_hub(data_set)
    except DataError as error:
        root = data_root(data)
        folder = str(root) if root else f"the folder that data.root or {ROOT_VARIABLE} names"
        raise DataError(
            f"no local copy of {data_set.name}, and {error.cause}",
            f"put {' and '.join(data_set.files)} into {folder}"
            if data_set.files
            else "name it as ORG/NAME/CONFIGURATION:SPLIT; for a machine without a network `hf "
            f"download --repo-type dataset {data_set.hub}` fills the cache",
        ) from error
    return f"{data_set.hub}@{commit}", rows


def _origin(files: Sequence[Path]) -> str:
    """File names with their content hashes: the same wherever the folder lies."""
    return ", ".join(f"{path.name} sha256:{content(path)[:_DIGITS]}" for path in files)


def _is_chosen(row: Row, data_set: DataSet) -> bool:
    if data_set.where is None:
        return True
    (column, value), (where, values) = data_set.where, row
    if column not in values:
        raise DataError(f"{where} has no column '{column}', by which {data_set.name} is chosen")
    return bool(values[column] == value)


def _either_kind(path: Path) -> Path | None:
    kinds = (path, path.with_suffix(".parquet"))
    return next((kind for kind in kinds if kind.is_file()), None)
