"""lighteval's `--save-details`: details_TASK_DATE.parquet, a row a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import (
    ForeignFile,
    ForeignSample,
    chosen_score,
    of_each,
    verdict,
)
from sage_cli.json_value import json_value
from sage_cli.problems.files import Row, read_file

NEEDED = {"doc", "model_response", "metric"}
EXPECTED = (
    'a document is as {"doc": {"id": "0", "query": "2+2=?", "choices": ["4"], "gold_index": 0}, '
    '"model_response": {"text": ["4"]}, "metric": {"em": 1.0}}'
)
_MEANS = ("avg@", "pass@k:k=1&")
"""Beginnings of the names of scores that are the share of right samples."""


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a task under one score.

    lighteval keeps one value a document. Of several samples it tells which are right where it is 0
    or 1, or where as many answers as it says are the gold itself.
    """
    rows = list(read_file(path))
    if not rows or not all(NEEDED.issubset(values) for _, values in rows):
        raise DataError(f"{path} is no file of lighteval's details")
    scores = list(dict.fromkeys(of_each(rows, lambda row: _scores(row[1]["metric"]), EXPECTED)))
    chosen = chosen_score(scores, score, str(path))
    samples = of_each(rows, lambda row: _samples(row, chosen), EXPECTED)
    others = ", ".join(one for one in scores if one != chosen)
    notes = (f"scores not taken: {others}",) if others else ()
    settings = {"task": rows[0][1]["doc"].get("task_name"), **_settings(path, rows[0][1]["doc"])}
    return ForeignFile("lighteval", samples, chosen, settings, notes)


def _scores(metric: Mapping[str, Any]) -> list[str]:
    return [name for name, value in metric.items() if verdict(value) is not None]


def _samples(row: Row, score: str | None) -> Iterator[ForeignSample]:
    place, values = row
    doc, response = values["doc"], values["model_response"]
    texts = response.get("text") or []
    if not texts or response.get("logprobs"):
        raise DataError(
            f"{place} was answered by likelihoods: it has no completions",
            "import a generative task",
        )
    answers = response.get("text_post_processed") or texts
    if len(answers) != len(texts):
        raise DataError(
            f"{place} has {len(texts)} completions and {len(answers)} in text_post_processed",
            "there is one for each completion, or none",
        )
    gold = _gold(doc)
    tokens = response.get("output_tokens") or []
    counts = [len(one) for one in tokens] if len(tokens) == len(texts) else [None] * len(texts)
    verdicts = _verdicts(score or "", values["metric"].get(score), answers, gold)
    for text, answer, right, count in zip(texts, answers, verdicts, counts, strict=True):
        # ids repeat between few-shot settings of one question, not within a file
        yield ForeignSample(
            str(doc["id"]), str(doc["query"]), str(text), gold, right, answer or None, count
        )


def _gold(doc: Mapping[str, Any]) -> str | None:
    """Return the gold; None where several answers count as right."""
    place, choices = doc.get("gold_index"), doc.get("choices") or []
    places = place if isinstance(place, list) else [place]
    golds = {str(choices[one]) for one in places if isinstance(one, int) and one < len(choices)}
    return golds.pop() if len(golds) == 1 else None


def _verdicts(
    score: str, value: Any, answers: Sequence[str], gold: str | None
) -> Sequence[bool | None]:
    """Return which of a document's samples are right, None where its value doesn't tell."""
    if len(answers) == 1:
        return [verdict(value)]
    unknown = [None] * len(answers)
    if not score.startswith(_MEANS) or verdict(value) is None:
        return unknown
    if value in (0, 1):
        return [bool(value)] * len(answers)
    exact = [answer.strip() == (gold or "").strip() for answer in answers]
    return exact if sum(exact) == round(value * len(answers)) else unknown


def _settings(path: Path, doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a document, and in the results of the same evaluation, if they lie
    where lighteval puts them."""
    found: dict[str, Any] = {"max_tokens": doc.get("generation_size")}
    folders = path.resolve().parts
    if "details" not in folders:
        return found
    root = len(folders) - 1 - folders[::-1].index("details")
    date = path.parent.name
    results = Path(*folders[:root], "results", *folders[root + 1 : -2], f"results_{date}.json")
    try:
        model = json_value(results.read_bytes())["config_general"]["model_config"]
        asked = model["generation_parameters"]
        kept = {key: asked.get(key) for key in ("temperature", "top_p", "seed")}
        return {**found, "model": model["model_name"], **kept}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return found
