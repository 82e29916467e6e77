"""Files of other programs: which program wrote a file, and its samples.

- lm-eval's `--log_samples`: samples_TASK_DATE.jsonl, a row a document and filter
- lighteval's `--save-details`: details_TASK_DATE.parquet, a row a document
- logs of Inspect: `.json`, or `.eval`, a zip archive of JSON packed with Zstandard or deflate
- a file of one's own: a row a completion, or a row a problem with a list of completions
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa

from sage_cli.errors import DataError
from sage_cli.json_value import json_value
from sage_cli.problems.rows import SUFFIXES, Row, read_file
from sage_cli.problems.values import as_text
from sage_cli.store.sample_parts import encodable

Taken = TypeVar("Taken")

SETTINGS = ("model", "temperature", "top_p", "max_tokens", "seed")
"""Settings of sampling that matter for a comparison; a file may say some of them."""


@dataclass(frozen=True, slots=True)
class ForeignSample:
    """A completion of a problem; None stands for what the file doesn't say.

    `problem` is the program's own id. `text` is None for a choice by likelihoods. `right` is the
    verdict, `extracted` the answer that it is about.
    """

    problem: str
    question: str
    text: str | None
    gold: str | None = None
    right: bool | None = None
    extracted: str | None = None
    tokens: int | None = None
    finish_reason: Literal["stop", "length"] | None = None
    seed: int | None = None

    def encoded(self) -> ForeignSample:
        """Return it with texts that can be encoded."""
        names = ("problem", "question", "text", "gold", "extracted")
        texts = {name: text for name in names if (text := getattr(self, name)) is not None}
        changed: Any = {name: encodable(text) for name, text in texts.items()}
        return self if changed == texts else replace(self, **changed)


@dataclass(frozen=True)
class ForeignFile:
    """The samples of a file in its order.

    `score` is the program's name of the verdict, `settings` what the file says of `SETTINGS` and
    of the program, `notes` say what of the file was not taken.
    """

    program: str
    samples: Sequence[ForeignSample]
    score: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def has_verdicts(self) -> bool:
        """Return True if every sample has the program's verdict."""
        return all(sample.right is not None for sample in self.samples)

    @property
    def has_golds(self) -> bool:
        """Return True if every sample has a gold."""
        return all(sample.gold is not None for sample in self.samples)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what the file doesn't say."""
        per_sample = {
            "golds": self.has_golds,
            "verdicts": self.has_verdicts,
            "token counts": all(sample.tokens is not None for sample in self.samples),
            "truncation": all(sample.finish_reason is not None for sample in self.samples),
        }
        absent = [name for name in SETTINGS if self.settings.get(name) is None]
        return (*absent, *(name for name, stated in per_sample.items() if not stated))


@contextmanager
def whole(location: object, expected: str) -> Iterator[None]:
    """Raise DataError where the block finds other values at `location` than a program writes."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
        raise DataError(f"{location} can't be read: {kind}{error}", expected) from error


def of_each(
    rows: Iterable[Row], take: Callable[[Row], Iterable[Taken]], expected: str
) -> list[Taken]:
    """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
    taken: list[Taken] = []
    for row in rows:
        with whole(row[0], expected):
            taken += take(row)
    return taken


def choose_score(
    values: Iterable[tuple[str, object]], asked: str | None, location: str
) -> tuple[str | None, list[str]]:
    """Return the score called `asked`, by default the first verdict, with a note on the others.

    A score with a value that is no verdict, as a BLEU of 12.3, an F1 of .37 or a word, says nothing
    of right and wrong.
    Raises DataError if such a score or one that is not there is asked for.
    """
    stated = [(name, value) for name, value in values if value is not None]
    names = dict.fromkeys(name for name, _ in stated)
    beyond = {name: str(value)[:60] for name, value in stated if verdict(value) is None}
    if asked in beyond:
        raise DataError(
            f"{location}: {asked} is {beyond[asked]} for a sample, neither right nor wrong",
            "a verdict is 1, 0 or -1: name another score, or leave out --score",
        )
    scores = [name for name in names if name not in beyond]
    if asked is not None and asked not in scores:
        raise DataError(
            f"{location} has no score '{asked}'",
            f"its scores are {', '.join(scores)}" if scores else "leave out --score",
        )
    chosen = asked or (scores[0] if scores else None)
    others = [f"{name} (no verdict: {beyond[name]})" if name in beyond else name for name in names]
    others = [other for other in others if other != chosen]
    several = asked is None and len(scores) > 1
    hint = f" ({chosen} is taken; --score NAME takes another)" if several else ""
    return chosen, [f"scores not taken: {', '.join(others)}{hint}"] if others else []


def verdict(value: object) -> bool | None:
    """Return True for a score of 1, False for 0 and -1, None for what is no verdict."""
    return value == 1 if isinstance(value, int | float) and value in (-1, 0, 1) else None


def only(value: object, location: str, name: str) -> str:
    """Return a text, or the one text in a list. Raises DataError for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple | dict):
        raise DataError(
            f"{location}: {name} holds {len(value)} values, not one",
            "write rows as {question, gold, completion, correct}, with one gold a problem",
        )
    return as_text(value)


_LM_EVAL = {"doc_id", "arguments", "resps", "filtered_resps"}
_LM_EVAL_ROW = (
    'a row is as lm-eval logs it: {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "2+2=?", '
    '"arg_1": {"temperature": 0.8}}}, "resps": [["4"]], "filtered_resps": ["4"], ...}'
)
_LM_EVAL_MEANS = ("pass@1", "pass_at_1")
"""Scores that are the share of right responses, where a filter passes all of a document's."""
_LM_EVAL_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def read_lm_eval(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a task under one score, `METRIC,FILTER` as lm-eval's results name it.

    Of repeats, lm-eval scores one response, or says by their pass@1 how many are right.
    """
    rows = list(read_file(path))
    for location, values in rows:  # one without its filter would be left out as another's
        if not _LM_EVAL.issubset(values):
            raise DataError(f"{location} is no row of lm-eval's samples", _LM_EVAL_ROW)
    scores = of_each(rows, lambda row: _lm_eval_scores(row[1]), _LM_EVAL_ROW)
    chosen, notes = choose_score(scores, score, str(path))
    metric, _, of_filter = (chosen or "").rpartition(",")
    taken = [row for row in rows if row[1].get("filter", "none") == of_filter or not chosen]
    if not chosen:  # the rows of several filters hold the same response
        responses = ((row, row[1].get("doc_id"), row[1].get("resps")) for row in taken)
        taken = list({(str(id_), str(texts)): row for row, id_, texts in responses}.values())
    samples = of_each(taken, lambda row: _lm_eval_samples(row, metric), _LM_EVAL_ROW)
    if any(sample.right is None for sample in samples) and len(samples) > len(taken):
        notes.append("lm-eval scored one response of each document: the repeats have no verdict")
    return ForeignFile("lm-eval", samples, chosen, _lm_eval_settings(path, taken), tuple(notes))


def _lm_eval_scores(values: Mapping[str, Any]) -> list[tuple[str, object]]:
    of_filter = values.get("filter", "none")
    # a share of the responses is no verdict on one, but tells of all: it may be chosen like one
    return [
        (f"{name},{of_filter}", 1 if name in _LM_EVAL_MEANS else values.get(name))
        for name in values.get("metrics") or ()
    ]


def _lm_eval_samples(row: Row, metric: str) -> Iterator[ForeignSample]:
    location, values = row
    texts = [text for of_request in values["resps"] for text in of_request]
    if not texts or not all(isinstance(text, str) for text in texts):
        texts = [None]  # answered by likelihoods: the score is the choice's
    question, _ = _lm_eval_request(values)
    target = values.get("target")
    gold = None if target in (None, "") else only(target, location, "target")
    filtered = values["filtered_resps"]
    answer = filtered[0] if len(filtered) == 1 and isinstance(filtered[0], str) else None
    # the mean of a filter that takes some responses alone says nothing of the others
    passed = metric in _LM_EVAL_MEANS and isinstance(filtered[0], list)
    passed = passed and len(filtered[0]) == len(texts)
    right = round(values[metric] * len(texts), 6) if passed else -1
    for number, text in enumerate(texts):
        if len(texts) > 1 and right in range(len(texts) + 1):  # which are right isn't known
            yield ForeignSample(str(values["doc_id"]), question, None, gold, number < right)
            continue
        scored = len(texts) == 1
        yield ForeignSample(
            str(values["doc_id"]), question, text, gold,
            verdict(values.get(metric)) if scored else None,
            answer if scored or (number == 0 and answer == text) else None,
        )  # fmt: skip


def _lm_eval_request(values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the prompt and the settings of a row's first request.

    Requests are a list in the rows of `simple_evaluate`, and in those of older files.
    """
    requests = values["arguments"]
    first = (requests if isinstance(requests, list) else list(requests.values()))[0]
    prompt, *others = first.values() if isinstance(first, Mapping) else first
    asked = others[0] if others and isinstance(others[0], Mapping) else {}
    return str(prompt), asked


def _lm_eval_settings(path: Path, rows: list[Row]) -> dict[str, Any]:
    """Return the settings in the rows, and in the results of the same evaluation beside them."""
    name = _LM_EVAL_NAME.fullmatch(path.name)
    _, asked = _lm_eval_request(rows[0][1])
    sampled = asked.get("do_sample", bool(asked.get("temperature")))

    def beside(stored: Any) -> dict[str, Any]:
        config, version = stored["config"], stored.get("lm_eval_version")
        model = config.get("model_args") or {}
        model = model.get("pretrained") if isinstance(model, Mapping) else str(model)
        return {"model": model, "seed": config.get("torch_seed"), "version": version}

    return {
        "task": name["task"] if name else None,
        "temperature": asked.get("temperature") if sampled else 0,
        "top_p": asked.get("top_p"),
        "max_tokens": asked.get("max_gen_toks"),
        **(_of_results(path.with_name(f"results_{name['date']}.json"), beside) if name else {}),
    }


def _of_results(file: Path, take: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return what `take` gives of a file of results; nothing of one that isn't there or is torn."""
    try:
        return take(json_value(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


_LIGHTEVAL = {"doc", "model_response", "metric"}
_LIGHTEVAL_ROW = (
    'a document is as {"doc": {"id": "0", "query": "2+2=?", "choices": ["4"], "gold_index": 0}, '
    '"model_response": {"text": ["4"]}, "metric": {"em": 1.0}}'
)
_LIGHTEVAL_MEANS = ("avg@", "pass@k:k=1&")
"""Beginnings of the names of scores that are the share of right samples."""


def read_lighteval(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a task under one score.

    lighteval keeps one value a document. Of several samples it tells which are right where it is 0
    or 1, or where as many answers as it says are the gold itself.
    """
    rows = list(read_file(path))
    scores = of_each(rows, _lighteval_scores, _LIGHTEVAL_ROW)
    chosen, notes = choose_score(scores, score, str(path))
    samples = of_each(rows, lambda row: _lighteval_samples(row, chosen), _LIGHTEVAL_ROW)
    settings = _lighteval_settings(path, rows[0][1]["doc"])
    return ForeignFile("lighteval", samples, chosen, settings, tuple(notes))


def _lighteval_scores(row: Row) -> list[tuple[str, object]]:
    """Return the scores of a document; a share of right samples is a score of those samples."""
    return [
        (name, 1.0 if name.startswith(_LIGHTEVAL_MEANS) and 0 < value < 1 else value)
        for name, value in row[1]["metric"].items()
    ]


def _lighteval_samples(row: Row, score: str | None) -> Iterator[ForeignSample]:
    location, values = row
    doc, response = values["doc"], values["model_response"]
    texts = response.get("text") or []
    if not texts or response.get("logprobs"):
        texts = [None]  # answered by likelihoods
    answers = response.get("text_post_processed") or texts
    if len(answers) != len(texts):
        raise DataError(
            f"{location} has {len(texts)} completions and {len(answers)} in text_post_processed",
            "there is one for each completion, or none",
        )
    gold = _lighteval_gold(doc)
    tokens = response.get("output_tokens") or []
    counts = [len(ids) for ids in tokens] if len(tokens) == len(texts) else [None] * len(texts)
    verdicts = _lighteval_verdicts(score or "", values["metric"].get(score), answers, gold)
    for text, answer, right, count in zip(texts, answers, verdicts, counts, strict=True):
        # ids repeat between few-shot settings of one question, not within a file
        yield ForeignSample(
            str(doc["id"]), str(doc["query"]), text, gold, right, answer or None, count
        )


def _lighteval_gold(doc: Mapping[str, Any]) -> str | None:
    """Return the gold; None where several answers count as right."""
    index_or_list, choices = doc.get("gold_index"), doc.get("choices") or []
    indices = index_or_list if isinstance(index_or_list, list) else [index_or_list]
    golds = {
        str(choices[index]) for index in indices if isinstance(index, int) and index < len(choices)
    }
    return golds.pop() if len(golds) == 1 else None


def _lighteval_verdicts(
    score: str, value: Any, answers: Sequence[str], gold: str | None
) -> Sequence[bool | None]:
    """Return which of a document's samples are right, None where its value doesn't tell."""
    if len(answers) == 1:
        return [verdict(value)]
    unknown = [None] * len(answers)
    if not (score.startswith(_LIGHTEVAL_MEANS) and isinstance(value, int | float)):
        return unknown
    if value in (0, 1):
        return [bool(value)] * len(answers)
    exact = [answer.strip() == (gold or "").strip() for answer in answers]
    return exact if sum(exact) == round(value * len(answers)) else unknown


def _lighteval_settings(path: Path, doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a document, and in the results of the same evaluation, if they lie
    where lighteval puts them."""
    settings = {"task": doc.get("task_name"), "max_tokens": doc.get("generation_size")}
    folders = path.resolve().parts
    if "details" not in folders:
        return settings
    root = len(folders) - 1 - folders[::-1].index("details")
    date = path.parent.name
    results = Path(*folders[:root], "results", *folders[root + 1 : -2], f"results_{date}.json")

    def beside(stored: Any) -> dict[str, Any]:
        model = stored["config_general"]["model_config"]
        asked = model["generation_parameters"]
        kept = {key: asked.get(key) for key in ("temperature", "top_p", "seed")}
        return {"model": model["model_name"], **kept}

    return {**settings, **_of_results(results, beside)}


_INSPECT = {"eval", "status", "samples"}
_ZSTANDARD = 93
"""The method of compression in a zip archive, which Python reads from 3.14 on."""
_MOST_BYTES, _FLOOR_BYTES, _RATIO = 2**30, 2**28, 200
"""Bounds on one unpacked file, and on all of them: 256 MiB, or 200 times the size of the log."""
_HEADER = struct.Struct("<26xHH")
_INSPECT_VALUES = {"C": 1.0, "P": 0.0, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}


def read_inspect(path: Path, score: str | None) -> ForeignFile:
    """Return a log's samples; an epoch is a sample of its problem.

    Raises DataError for a log without samples, without that score, or that is damaged.
    """
    with whole(path, "write the log again with `inspect log convert`"):
        if zipfile.is_zipfile(path):
            head, samples = _packed_log(path)
        else:
            head = json_value(path.read_bytes())
            samples = head["samples"] or ()
        return _inspect_file(path, head, list(samples), score)


def _packed_log(path: Path) -> tuple[Mapping[str, Any], Iterable[Any]]:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} is damaged: {error}") from None
    with archive:
        infos = {info.filename: info for info in archive.infolist()}
    size = sum(info.file_size for info in infos.values())
    if size > max(_FLOOR_BYTES, _RATIO * path.stat().st_size):
        raise DataError(f"{path} would unpack to {size:,} bytes", "import a smaller log")
    if "header.json" not in infos:
        raise DataError(
            f"{path} has no header.json: the evaluation was not finished",
            "run `inspect eval-retry` on it, and import its log",
        )
    names = sorted(name for name in infos if name.startswith("samples/"))
    return _packed_value(path, infos["header.json"]), (
        _packed_value(path, infos[name]) for name in names
    )


def _packed_value(path: Path, info: zipfile.ZipInfo) -> Any:
    """Return the JSON value of a packed file."""
    if info.file_size > _MOST_BYTES:
        raise DataError(f"{info.filename} of {path} would have {info.file_size:,} bytes")
    if info.compress_type != _ZSTANDARD:
        with zipfile.ZipFile(path) as archive:
            return json_value(archive.read(info))
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = _HEADER.unpack(file.read(_HEADER.size))
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    try:
        return json_value(pa.Codec("zstd").decompress(packed, info.file_size, asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{info.filename} of {path} is damaged: {error}") from None


def _inspect_file(
    path: Path, head: Mapping[str, Any], rows: list[Any], score: str | None
) -> ForeignFile:
    if not rows:
        raise DataError(
            f"{path} holds no samples", "evaluate again without --no-log-samples, or another log"
        )
    failed = [row for row in rows if row.get("error")]
    rows = sorted(
        (row for row in rows if not row.get("error")),
        key=lambda row: (str(row["id"]), row["epoch"]),
    )
    scores = [(name, _inspect_value(row, name)) for row in rows for name in row.get("scores") or {}]
    chosen, not_taken = choose_score(scores, score, str(path))
    samples = [_inspect_sample(row, chosen, f"{path}, sample {row['id']}") for row in rows]
    partial = sum(_inspect_score(row, chosen) == "P" for row in rows)
    notes = []
    if failed:
        notes.append(f"{len(failed)} samples failed, and are left out")
    if partial:
        notes.append(f"{partial} values of {chosen} are P, partially right: they count as wrong")
    notes += not_taken
    about, config = head["eval"], (head.get("plan") or {}).get("config") or {}
    config = {**config, **(about.get("model_generate_config") or {})}
    settings = {key: config.get(key) for key in ("temperature", "top_p", "max_tokens", "seed")}
    settings = {"model": about.get("model"), "task": about.get("task"), **settings}
    settings["version"] = (about.get("packages") or {}).get("inspect_ai")
    return ForeignFile("inspect", samples, chosen, settings, tuple(notes))


def _inspect_sample(row: Mapping[str, Any], score: str | None, location: str) -> ForeignSample:
    choice = row["output"]["choices"][0]
    value = _inspect_value(row, score)
    answer = (row.get("scores") or {}).get(score or "", {}).get("answer")
    usage = row["output"].get("usage") or {}
    stopped = choice.get("stop_reason")
    target = row.get("target")
    return ForeignSample(
        problem=str(row["id"]),
        question=_inspect_question(row["input"]),
        text=_inspect_text(choice["message"]["content"]),
        gold=None if target in (None, "", []) else only(target, location, "target"),
        right=verdict(value),
        extracted=answer if isinstance(answer, str) and answer else None,
        tokens=usage.get("output_tokens"),
        finish_reason="length" if stopped in ("max_tokens", "model_length") else "stop",
    )


def _inspect_value(row: Mapping[str, Any], score: str | None) -> object:
    value = _inspect_score(row, score)
    return _INSPECT_VALUES.get(value, value) if isinstance(value, str | bool) else value


def _inspect_score(row: Mapping[str, Any], score: str | None) -> object:
    return (row.get("scores") or {}).get(score or "", {}).get("value")


def _inspect_question(asked: Any) -> str:
    """Return the input, of a conversation all turns of system and user."""
    if isinstance(asked, str):
        return asked
    return "\n\n".join(
        _inspect_text(turn["content"]) for turn in asked if turn.get("role") != "assistant"
    )


def _inspect_text(content: Any) -> str:
    """Return a message's text; of parts those that are texts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


_JSONL_ROW = (
    'a row is as {"question": "2+2=?", "gold": "4", "completion": "It is 4", "correct": true}, or '
    "has lists `completions` and `correct`; gold or correct may be absent"
)
_JSONL_VERDICTS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def has_completions(row: Mapping[str, Any]) -> bool:
    """Return True if a row is of such a file."""
    return "question" in row and bool({"completion", "completions"} & row.keys())


def read_jsonl(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a JSONL, CSV or Parquet file. Raises DataError that names the row."""
    if score is not None:
        raise DataError(f"{path} has no scores by name", "leave out --score")
    owners = Owners()

    def samples(row: Row) -> Iterator[ForeignSample]:
        for sample in _jsonl_samples(row):
            try:
                owners.refuse_another(sample.problem, row[1])
            except ValueError as error:
                raise DataError(f"{row[0]}: {error}", "give each its own file") from None
            yield sample

    return ForeignFile("jsonl", of_each(read_file(path), samples, _JSONL_ROW), score="correct")


class Owners:
    """The benchmark and the model that a file's rows name: each problem has one of each."""

    NAMES = ("benchmark", "task", "dataset", "model", "policy")

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Any] = {}

    def refuse_another(self, problem: str, row: Mapping[str, Any]) -> None:
        """Raise ValueError if an earlier row of the problem is of another benchmark or model."""
        for name in self.NAMES:
            own = row.get(name)
            if own != (first := self._first.setdefault((problem, name), own)):
                raise ValueError(f"problem '{problem}' is of {name} {first} and {own}")


def _jsonl_samples(row: Row) -> Iterator[ForeignSample]:
    location, values = row
    if not has_completions(values):
        raise DataError(f"{location} has no question, or no completion", _JSONL_ROW)
    question = only(values["question"], location, "question")
    gold = None if values.get("gold") is None else only(values["gold"], location, "gold")
    several = values.get("completions")
    texts = several if isinstance(several, list) else [values.get("completion")]
    if not texts:
        raise DataError(f"{location} has no completion in `completions`", "mend or remove the row")
    verdicts = values.get("correct")
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts] * len(texts)
    if len(verdicts) != len(texts):
        raise DataError(
            f"{location} has {len(texts)} completions and {len(verdicts)} in correct", _JSONL_ROW
        )
    id_ = str(values.get("problem", question))
    seed = values.get("seed")
    for text, correct in zip(texts, verdicts, strict=True):
        if not isinstance(text, str):
            raise DataError(f"{location} has a completion that is no text: {text!r}", _JSONL_ROW)
        yield ForeignSample(
            id_, question, text, gold, None if correct in (None, "") else is_correct(correct),
            tokens=_whole_number(values.get("tokens")), seed=_whole_number(seed),
        )  # fmt: skip


def is_correct(value: object) -> bool:
    """Return what `correct` says in a row. Raises ValueError for what is neither true nor false."""
    correct = _JSONL_VERDICTS.get(str(value).strip().lower())
    if correct is None:
        raise ValueError(f"correct is {value!r}, not true or false")
    return correct


def _whole_number(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None


Recognise = Callable[[Mapping[str, Any]], bool]
Read = Callable[[Path, str | None], ForeignFile]
FORMATS: Mapping[str, tuple[Recognise, Read]] = {
    "lm-eval": (_LM_EVAL.issubset, read_lm_eval),
    "lighteval": (_LIGHTEVAL.issubset, read_lighteval),
    "inspect": (_INSPECT.issubset, read_inspect),
    "jsonl": (has_completions, read_jsonl),
}
"""By program, in the order in which a file is tried: whether a first row is its, and its reader of
a path under a score."""


def read_foreign(path: Path, score: str | None = None) -> ForeignFile:
    """Return the samples of a file of the program whose form it has.

    Raises DataError for a file that isn't there, of no known form, or without samples.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    _, read = FORMATS[detected(path)]
    file = read(path, score)
    if not file.samples:
        raise DataError(f"{path} holds no samples")
    return _storable(file)


def _storable(file: ForeignFile) -> ForeignFile:
    """Return the file with texts that can be encoded, and a note where one was changed."""
    samples = [sample.encoded() for sample in file.samples]
    changed = sum(new is not old for new, old in zip(samples, file.samples, strict=True))
    count = "1 sample" if changed == 1 else f"{changed} samples"
    notes = (f"{count}: lone surrogates were replaced by U+FFFD",) if changed else ()
    settings = {
        key: encodable(value) if isinstance(value, str) else value
        for key, value in file.settings.items()
    }
    score = None if file.score is None else encodable(file.score)
    return ForeignFile(file.program, samples, score, settings, (*file.notes, *notes))


def detected(path: Path) -> str:
    """Return the name of the form of a file. Raises DataError where it has none of them."""
    row = _first(path)
    name = next((name for name, (recognise, _) in FORMATS.items() if recognise(row)), None)
    if name is None:
        raise DataError(
            f"{path} has the form of no program that is known; it begins with "
            f"{', '.join(map(str, islice(row, 8))) or 'nothing'}",
            'write rows as {"question": ..., "gold": ..., "completion": ...}',
        )
    return name


def _first(path: Path) -> Mapping[str, Any]:
    """Return the first row of a file, or the whole of a JSON object."""
    if zipfile.is_zipfile(path):
        return {"eval": None, "status": None, "samples": None}
    if path.suffix == ".json":
        try:
            value = json_value(path.read_bytes())
        except ValueError as error:
            raise DataError(f"{path} isn't JSON: {error}") from None
        return value if isinstance(value, dict) else {}
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path} is neither JSONL, CSV, Parquet, JSON nor a log of Inspect",
            "name the file with the samples themselves",
        )
    return next((values for _, values in read_file(path)), {})
