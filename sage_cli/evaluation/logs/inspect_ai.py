"""Logs of Inspect: `.json`, or `.eval`, a zip archive of JSON packed with Zstandard or deflate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sage_cli.counted import counted
from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import REPEATED, Log, LogSample, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.scores import choose_score, read_verdict, without_verdict
from sage_cli.evaluation.logs.source import LogSource, expecting, single_gold, without_repeats

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_INSPECT = {"eval", "status", "samples"}
_KEPT = ("id", "epoch", "input", "choices", "target", "scores", "error", "invalidation")
"""What is kept of a sample, whose events and messages are most of a log."""
_VALUES = {"c": 1.0, "p": 0.0, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Verdicts in words, as Inspect's accuracy reads them, except that a partial one is not correct."""
_ATTACHMENT = "attachment://"
_CUT_OFF = ("max_tokens", "model_length")
_ENDED_EARLY = {
    "error": "ended with an error",
    "cancelled": "was cancelled",
    "started": "was not finished when this was written",
}


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return a log's samples; an epoch is a sample of its problem.

    Raises DataError for a log without samples, without that score, or that is damaged.
    """
    with expecting(source, "write the log again with `inspect log convert`"):
        head, rows = _head_and_rows(source)
        return _log_of(source, head, rows, reading)


def _head_and_rows(source: LogSource) -> tuple[Mapping[str, Any], list[FileRow]]:
    if not source.is_archive:
        head, samples = source.value, source.value["samples"] or ()
        return head, [
            _kept(sample, head, f"{source}, sample {n}") for n, sample in enumerate(samples, 1)
        ]
    names = sorted(name for name in source.members if name.startswith("samples/"))
    if "header.json" in source.members:
        head = source.member("header.json")
    # an evaluation that was killed has its header's beginning in the journal alone
    elif names and "_journal/start.json" in source.members:
        head = {"status": "started", **source.member("_journal/start.json")}
    else:
        raise DataError(
            f"{source} has no header.json: the evaluation was not finished",
            "run `inspect eval-retry` on it, and import its log",
        )
    rows = []
    for name in names:
        rows.append(_kept(source.member(name), head, f"{source}, {name}"))
        source.kept.add_value(rows[-1])
    return head, rows


def _kept(sample: Mapping[str, Any], head: Mapping[str, Any], where: str) -> FileRow:
    """Return the part of a sample that is read, with the texts of its attachments."""
    kept: dict[str, Any] = {name: sample.get(name) for name in _KEPT}
    kept |= {"id": sample["id"], "epoch": sample["epoch"], "input": sample["input"]}
    if not kept["scores"] and sample.get("score"):  # before Inspect had several scorers
        kept["scores"] = {_only_scorer(head): sample["score"]}
    output = sample["output"]
    first: Mapping[str, Any] = next(
        iter(output.get("choices") or ()), {}
    )  # none where a limit struck before
    content = (first.get("message") or {}).get("content")
    kept |= {
        "stopped": first.get("stop_reason"),
        "text": _text(content) if content is not None else output.get("completion") or "",
        "tokens": (output.get("usage") or {}).get("output_tokens"),
        "question": _question(kept.pop("input")),
    }
    attachments = sample.get("attachments") or {}
    for name in ("text", "question"):
        # Inspect stores long texts once, by their hash, and refers to them
        if kept[name].startswith(_ATTACHMENT):
            kept[name] = attachments.get(kept[name].removeprefix(_ATTACHMENT), kept[name])
    return where, kept


def _only_scorer(head: Mapping[str, Any]) -> str:
    scorer = (head.get("results") or {}).get("scorer")
    return (scorer.get("name") if isinstance(scorer, Mapping) else scorer) or "score"


def _log_of(
    source: LogSource, head: Mapping[str, Any], rows: list[FileRow], reading: ReadOptions
) -> Log:
    if not rows:
        raise DataError(
            f"{source} has no samples", "evaluate again without --no-log-samples, or another log"
        )
    about = head["eval"]
    limits = about.get("config") or {}
    rows, repeats = without_repeats(rows, lambda row: f"id {row['id']}, epoch {row['epoch']}")
    # the archive's order is that in which samples ended: sorted by epoch, the first k samples of a
    # problem are not its k quickest ones, which would bias pass@k by first samples
    rows.sort(key=lambda row: (str(row[1]["id"]), row[1]["epoch"]))
    scored_anyway = limits.get("score_on_error") is True
    # scores of failed samples decide nothing about which score to take, unless Inspect itself
    # counts them
    counting = [row for _, row in rows if scored_anyway or not row["error"]]
    order = [score.get("name") for score in (head.get("results") or {}).get("scores") or ()]
    values = sorted(
        (value for row in counting for value in _values(row)),
        # the header has the scorers in the order of the task; a sample has them in any
        key=lambda value: order.index(value[0]) if value[0] in order else len(order),
    )
    chosen, not_taken = choose_score(values, reading.score, str(source))
    log = Log(
        "inspect",
        [_sample(where, row, chosen) for where, row in rows],
        chosen,
        _settings(head),
        (*_warnings(head, [row for _, row in rows], chosen, reading), *not_taken),
        {REPEATED: repeats} if repeats else {},
        planned=_planned(about),
        graded_otherwise=chosen is None and bool(not_taken),
    )
    failed = [
        bool(row["error"]) and not (scored_anyway and sample.correct is not None)
        for (_, row), sample in zip(rows, log.samples, strict=True)
    ]
    log = log.without("they failed", failed)
    if reading.drop_invalidated:
        # `without` above has removed the failed ones: the flags must be of those that are left
        left = [row for (_, row), has_failed in zip(rows, failed, strict=True) if not has_failed]
        invalid = [bool(row["invalidation"]) for row in left]
        log = log.without("they are marked as invalid", invalid)
    return without_verdict(log)


def _warnings(
    head: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    score: str | None,
    reading: ReadOptions,
) -> Iterator[str]:
    """Yield what the log says of its own reliability."""
    status = str(head.get("status") or "success")
    if status != "success":
        yield (
            f"the evaluation {_ENDED_EARLY.get(status, 'ended early')} (status {status}): samples "
            "that take long are the first to be missing, so pass@k may be too high"
        )
    scored = sum(bool(row["error"]) and _verdict(row, score) is not None for row in rows)
    if scored and ((head["eval"].get("config") or {}).get("score_on_error") is True):
        yield f"{counted(scored, 'failed sample')} with a score: counted, as score_on_error says"
    invalid = sum(bool(row["invalidation"]) for row in rows)
    if invalid and not reading.drop_invalidated:
        yield (
            f"{counted(invalid, 'sample')} marked as invalid: counted, as in Inspect's own metric; "
            "--drop-invalidated leaves them out"
        )
    partial = sum(_score(row, score) in ("P", "p") for row in rows)
    if partial:
        yield f"{partial} values of {score} are P (partially correct): they count as wrong"


def _planned(about: Mapping[str, Any]) -> int | None:
    """Return the number of problems that the evaluation was to have."""
    dataset = about.get("dataset") or {}
    ids = dataset.get("sample_ids")
    return len(ids) if isinstance(ids, list) and ids else dataset.get("samples")


def _settings(head: Mapping[str, Any]) -> dict[str, Any]:
    about, config = head["eval"], (head.get("plan") or {}).get("config") or {}
    config = {**config, **(about.get("model_generate_config") or {})}
    settings = {key: config.get(key) for key in ("temperature", "top_p", "max_tokens", "seed")}
    settings = {"model": about.get("model"), "task": about.get("task"), **settings}
    settings["version"] = (about.get("packages") or {}).get("inspect_ai")
    return settings


def _sample(where: str, row: Mapping[str, Any], score: str | None) -> LogSample:
    # SCORER.KEY is our name for one of several values of a scorer; the answer is the scorer's
    name = (score or "") if (score or "") in (row["scores"] or {}) else (score or "").split(".")[0]
    answer = ((row["scores"] or {}).get(name) or {}).get("answer")
    return LogSample(
        problem=str(row["id"]),
        question=row["question"],
        text=row["text"],
        gold=single_gold(row["target"]),
        correct=_verdict(row, score),
        extracted=answer if isinstance(answer, str) and answer else None,
        tokens=row["tokens"],
        finish_reason="length" if row["stopped"] in _CUT_OFF else "stop",
        choices=tuple(map(str, row["choices"] or ())),
        where=where,
    )


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield a sample's scores by name; `NAME.KEY` for those of a scorer that gives several."""
    for name, score in (row["scores"] or {}).items():
        value = (score or {}).get("value")
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", _as_number(part)) for key, part in value.items())
        else:
            yield name, _as_number(value)


def _verdict(row: Mapping[str, Any], score: str | None) -> bool | None:
    return read_verdict(_as_number(_score(row, score)))


def _score(row: Mapping[str, Any], score: str | None) -> object:
    scores, name = row["scores"] or {}, score or ""
    if name in scores:
        value = (scores[name] or {}).get("value")
        return None if isinstance(value, Mapping) else value
    scorer, _, key = name.rpartition(".")
    values = (scores.get(scorer) or {}).get("value")
    return values.get(key) if isinstance(values, Mapping) else None


def _as_number(value: object) -> object:
    """Return a word as its number, and None for NaN, which stands for what was not scored."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        text = value.strip().lower()
        return _VALUES.get(text, {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}.get(text, value))
    # NaN is the only value that differs from itself; Inspect writes it for what was not scored
    return None if value != value else value


def _question(asked: Any) -> str:
    """Return the input, of a conversation all turns of system and user."""
    if isinstance(asked, str):
        return asked
    return "\n\n".join(_text(turn["content"]) for turn in asked if turn.get("role") != "assistant")


def _text(content: Any) -> str:
    """Return a message's text; of parts those that are texts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


PROGRAM = Program(
    name="inspect",
    title="Inspect",
    file="`.eval` or `.json`",
    sample="an epoch",
    verdict="a scorer, or `SCORER.KEY` where it gives several values; `C` is correct, `P` is not",
    recognise=lambda source: source.is_archive or _INSPECT.issubset(source.first),
    read=_read,
    has_fixed_columns=True,
)
