"""lm-eval's `--log_samples`: samples_TASK_DATE.jsonl, a row a document and filter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import (
    ForeignFile,
    ForeignSample,
    chosen_score,
    of_each,
    only,
    verdict,
)
from sage_cli.json_value import json_value
from sage_cli.problems.files import Row, read_file

NEEDED = {"doc_id", "arguments", "resps", "filtered_resps"}
EXPECTED = (
    'a row is as lm-eval logs it: {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "2+2=?", '
    '"arg_1": {"temperature": 0.8}}}, "resps": [["4"]], "filtered_resps": ["4"], ...}'
)
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a task under one score, `METRIC,FILTER` as lm-eval's results name it.

    lm-eval scores one response of a document: of repeats, the others have no verdict. Raises
    DataError for a task that is answered by likelihoods.
    """
    rows = list(read_file(path))
    if not rows or not all(NEEDED.issubset(values) for _, values in rows):
        raise DataError(
            f"{path} is no file of lm-eval's samples",
            "name a samples_TASK_DATE.jsonl, written with --log_samples",
        )
    scores = list(dict.fromkeys(of_each(rows, lambda row: _scores(row[1]), EXPECTED)))
    chosen = chosen_score(scores, score, str(path))
    metric, _, of_filter = (chosen or "").rpartition(",")
    taken = [row for row in rows if row[1].get("filter", "none") == of_filter or not chosen]
    samples = of_each(taken, lambda row: _samples(row, metric), EXPECTED)
    notes = []
    if len(scores) > 1:
        notes.append(f"scores not taken: {', '.join(one for one in scores if one != chosen)}")
    if len(samples) > len(taken):
        notes.append("lm-eval scored one response of each document: the repeats have no verdict")
    return ForeignFile("lm-eval", samples, chosen, _settings(path, taken), tuple(notes))


def _scores(values: Mapping[str, Any]) -> list[str]:
    metrics = [
        name for name in values.get("metrics") or () if verdict(values.get(name)) is not None
    ]
    return [f"{name},{values.get('filter', 'none')}" for name in metrics]


def _samples(row: Row, metric: str) -> Iterator[ForeignSample]:
    place, values = row
    texts = [text for of_request in values["resps"] for text in of_request]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"{place} was answered by likelihoods: it has no completions",
            "import a task whose output_type is generate_until",
        )
    question, _ = _request(values)
    target = values.get("target")
    gold = None if target in (None, "") else only(target, place, "target")
    filtered = values["filtered_resps"]
    answer = filtered[0] if len(filtered) == 1 and isinstance(filtered[0], str) else None
    for number, text in enumerate(texts):
        scored = len(texts) == 1
        yield ForeignSample(
            str(values["doc_id"]), question, text, gold,
            verdict(values.get(metric)) if scored else None,
            answer if scored or (number == 0 and answer == text) else None,
        )  # fmt: skip


def _request(values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the prompt and the settings of a row's first request.

    Requests are a list in the rows of `simple_evaluate`, and in those of older files.
    """
    requests = values["arguments"]
    first = (requests if isinstance(requests, list) else list(requests.values()))[0]
    prompt, *others = first.values() if isinstance(first, Mapping) else first
    asked = others[0] if others and isinstance(others[0], Mapping) else {}
    return str(prompt), asked


def _settings(path: Path, rows: list[Row]) -> dict[str, Any]:
    """Return the settings in the rows, and in the results of the same evaluation beside them."""
    name = _NAME.fullmatch(path.name)
    _, asked = _request(rows[0][1])
    sampled = asked.get("do_sample", bool(asked.get("temperature")))
    found = {
        "task": name["task"] if name else None,
        "temperature": asked.get("temperature") if sampled else 0,
        "top_p": asked.get("top_p"),
        "max_tokens": asked.get("max_gen_toks"),
    }
    results = path.with_name(f"results_{name['date']}.json") if name else None
    if results is None or not results.is_file():
        return found
    try:
        whole = json_value(results.read_bytes())
        said = whole["config"]
        model = said.get("model_args") or {}
        model = model.get("pretrained") if isinstance(model, Mapping) else str(model)
        version = whole.get("lm_eval_version")
        return {**found, "model": model, "seed": said.get("torch_seed"), "version": version}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return found
