"""lighteval's `--save-details`: `details_TASK_DATE.parquet`, a row per document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, LogSample
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.scores import choose_score, verdict_of
from sage_cli.evaluation.logs.source import Source, results_beside, take_each

if TYPE_CHECKING:
    from sage_cli.problems.row_files import Row

_LIGHTEVAL = {"doc", "model_response", "metric"}
_LIGHTEVAL_ROW = (
    'a document is as {"doc": {"id": "0", "query": "2+2=?", "choices": ["4"], "gold_index": 0}, '
    '"model_response": {"text": ["4"]}, "metric": {"em": 1.0}}'
)
_LIGHTEVAL_MEANS = ("avg@", "pass@k:k=1&")
"""Beginnings of the names of scores that are the share of right samples."""


def _read(source: Source, score: str | None) -> Log:
    """Return the samples of a task under one score.

    lighteval keeps one value a document. Of several samples it tells which are right where it is 0
    or 1, or where as many answers as it says are the gold itself.
    """
    rows = list(source.rows())
    scores = take_each(rows, _lighteval_scores, _LIGHTEVAL_ROW)
    chosen, notes = choose_score(scores, score, str(source))
    samples = take_each(rows, lambda row: _lighteval_samples(row, chosen), _LIGHTEVAL_ROW)
    settings = _lighteval_settings(source.path, rows[0][1]["doc"])
    return Log("lighteval", samples, chosen, settings, tuple(notes))


def _lighteval_scores(row: Row) -> list[tuple[str, object]]:
    """Return the scores of a document; a share of right samples is a score of those samples."""
    return [
        (name, 1.0 if name.startswith(_LIGHTEVAL_MEANS) and 0 < value < 1 else value)
        for name, value in row[1]["metric"].items()
    ]


def _lighteval_samples(row: Row, score: str | None) -> Iterator[LogSample]:
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
        yield LogSample(str(doc["id"]), str(doc["query"]), text, gold, right, answer or None, count)


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
        return [verdict_of(value)]
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

    return {**settings, **results_beside(results, beside)}


PROGRAM = Program(
    name="lighteval",
    title="lighteval",
    file="`details_TASK_DATE.parquet` of `--save-details`",
    sample="a text",
    verdict="a metric; of several samples where its mean tells which are correct",
    recognise=lambda source: _LIGHTEVAL.issubset(source.first),
    read=_read,
)
