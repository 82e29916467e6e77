"""lighteval's `--save-details`: `details_TASK_DATE.parquet`, a row per document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import REPEATED, Log, LogSample, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.scores import choose_score, read_verdict, without_verdict
from sage_cli.evaluation.logs.source import (
    LogSource,
    expecting,
    results_beside,
    take_each,
    without_repeats,
)
from sage_cli.json_value import is_number

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_LIGHTEVAL = {"doc", "model_response", "metric"}
_LIGHTEVAL_ROW = (
    'a document is as {"doc": {"id": "0", "query": "2+2=?", "choices": ["4"], "gold_index": 0}, '
    '"model_response": {"text": ["4"]}, "metric": {"em": 1.0}}'
)
_MEAN = re.compile(r"avg@|.*pass@1:|pass@k:k=1(?!\d)")
"""Names of scores that are the share of a document's correct samples."""
_NUMBER = re.compile(r"\bn=(\d+)|avg@(\d+)|:(\d+)_samples")
"""The number of samples in such a name."""


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a task under one score.

    lighteval keeps one value per document. The share of several samples that are correct says how
    many are, and which ones where as many answers are the gold itself.
    """
    with expecting(source, _LIGHTEVAL_ROW):
        rows, repeats = without_repeats(source.rows(), lambda row: f"id {row['doc']['id']}")
    scores = take_each(rows, _lighteval_scores, _LIGHTEVAL_ROW)
    chosen, notes = choose_score(scores, reading.score, str(source))
    samples = take_each(rows, lambda row: _lighteval_samples(row, chosen), _LIGHTEVAL_ROW)
    settings = _lighteval_settings(source.path, rows[0][1]["doc"])
    if any(sample.correct is None for sample in samples) and len(samples) > len(rows):
        notes.append(
            f"{chosen or 'no score'} doesn't say how many of a document's samples are correct"
        )
    left_out = {REPEATED: repeats} if repeats else {}
    otherwise = chosen is None and bool(scores) and len(samples) == len(rows)
    log = Log(
        "lighteval", samples, chosen, settings, tuple(notes), left_out, graded_otherwise=otherwise
    )
    return without_verdict(log)


def _lighteval_scores(row: FileRow) -> list[tuple[str, object]]:
    """Return the scores of a document; a share of correct samples is a score of those samples."""
    return [
        # a share such as 0.25 is not a verdict, but the score is of verdicts: shown to the choice
        # of a score as one
        (name, 1.0 if _MEAN.match(name) and 0 < (value or 0) < 1 else value)
        for name, value in row[1]["metric"].items()
    ]


def _lighteval_samples(row: FileRow, score: str | None) -> Iterator[LogSample]:
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
    gold, choices = _lighteval_gold(doc), tuple(map(str, doc.get("choices") or ()))
    value = values["metric"].get(score)
    given = None if texts == [None] else len(texts)
    # one text has its verdict as the score itself
    right = _correct(score or "", value, given) if given != 1 else None
    exact = [(answer or "").strip() == (gold or "").strip() for answer in answers]
    verdicts: Sequence[bool | None] = exact
    if right is None:
        verdicts = [read_verdict(value) if len(texts) == 1 else None] * len(texts)
    elif sum(exact) != right or not given:  # it isn't known which are correct
        n = given or _samples_of(score or "") or 0
        texts, answers, verdicts = [None] * n, [None] * n, [place < right for place in range(n)]
    tokens = response.get("output_tokens") or []
    # token counts are used only where there is one list for each text
    counts = [len(ids) for ids in tokens] if len(tokens) == len(texts) else [None] * len(texts)
    for text, answer, verdict, count in zip(texts, answers, verdicts, counts, strict=True):
        # ids repeat between few-shot settings of one question, not within a file
        yield LogSample(
            str(doc["id"]),
            str(doc["query"]),
            text,
            gold,
            verdict,
            answer or None,
            count,
            choices=choices if gold is not None and len(choices) > 1 else (),
            where=location,
        )


def _samples_of(score: str) -> int | None:
    """Return the number of samples in the name of a score."""
    number = _NUMBER.search(score)
    return int(next(filter(None, number.groups()))) if number else None


def _correct(score: str, value: object, texts: int | None) -> int | None:
    """Return how many of a document's samples are correct, None where the score doesn't say it.

    n stands in the score's name, or is the number of texts; where both are known and differ, the
    score is of other samples.
    """
    n = _samples_of(score) or texts
    if not _MEAN.match(score) or not is_number(value) or n is None or texts not in (None, n):
        return None
    correct = round(value * n)
    # a mean that is not a whole number of n samples is of another n, or of partial scores
    return correct if abs(value * n - correct) < 1e-6 * n and 0 <= correct <= n else None


def _lighteval_gold(doc: Mapping[str, Any]) -> str | None:
    """Return the gold; None where several answers count as correct."""
    index_or_list, choices = doc.get("gold_index"), doc.get("choices") or []
    indices = index_or_list if isinstance(index_or_list, list) else [index_or_list]
    golds = {
        str(choices[index]) for index in indices if isinstance(index, int) and index < len(choices)
    }
    return golds.pop() if len(golds) == 1 else None


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

    return {**settings, **results_beside(results, beside)}


PROGRAM = Program(
    name="lighteval",
    title="lighteval",
    file="`details_TASK_DATE.parquet` of `--save-details`",
    sample="a text",
    verdict="a metric; of several samples a mean such as `avg@n:n=4` says how many are correct",
    recognise=lambda source: _LIGHTEVAL.issubset(source.first),
    read=_read,
    has_fixed_columns=True,
)
