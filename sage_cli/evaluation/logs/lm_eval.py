"""lm-eval's `--log_samples`: `samples_TASK_DATE.jsonl`, a row per document and filter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.counted import counted
from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import REPEATED, Log, LogSample, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.scores import choose_score, read_verdict, without_verdict
from sage_cli.evaluation.logs.source import (
    LogSource,
    results_beside,
    single_gold,
    take_each,
    without_repeats,
)
from sage_cli.json_value import is_number

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_LM_EVAL = {"doc_id", "arguments", "resps", "filtered_resps"}
_NO_METRICS = {*_LM_EVAL, "doc", "target", "doc_hash", "prompt_hash", "target_hash", "filter"}
_LM_EVAL_ROW = (
    'a row is as lm-eval logs it: {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "2+2=?", '
    '"arg_1": {"temperature": 0.8}}}, "resps": [["4"]], "filtered_resps": ["4"], ...}'
)
_LM_EVAL_MEANS = ("pass@1", "pass_at_1")
"""Scores that are the share of correct responses, where a filter passes all of a document's."""
_LM_EVAL_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a task under one score, `METRIC,FILTER` as lm-eval's results name it.

    Of repeats, lm-eval scores one response, or says by their pass@1 how many are correct.
    """
    rows = list(source.rows())
    for location, values in rows:  # one without its filter would be left out as another's
        if not _LM_EVAL.issubset(values):
            raise DataError(f"{location} is not a row of lm-eval's samples", _LM_EVAL_ROW)
    scores = take_each(rows, lambda row: _lm_eval_scores(row[1]), _LM_EVAL_ROW)
    chosen, notes = choose_score(scores, reading.score, str(source))
    metric, _, of_filter = (chosen or "").rpartition(",")
    # a document has a row for each filter, with the same responses: counted together, each response
    # would count several times
    taken = [row for row in rows if row[1].get("filter", "none") == of_filter or not chosen]
    # logs before 0.4.4 have a row for each filter, too, and don't say which
    unnamed = not chosen or not any("filter" in values for _, values in taken)
    if unnamed and (others := _of_other_filters(taken)):
        taken = [row for row in taken if row[0] not in others]
        notes.append(
            f"{counted(len(others), 'row')} of other filters with the same responses: the first "
            "row of each document is taken"
        )
    taken, repeats = without_repeats(taken, lambda values: f"doc_id {values['doc_id']}")
    samples = take_each(taken, lambda row: _lm_eval_samples(row, metric), _LM_EVAL_ROW)
    if any(sample.correct is None for sample in samples) and len(samples) > len(taken):
        notes.append("lm-eval scored one response of each document: the repeats have no verdict")
    settings = _lm_eval_settings(source.path, taken)
    log = Log(
        "lm-eval",
        samples,
        chosen,
        {k: v for k, v in settings.items() if k != "planned"},
        tuple(notes),
        {REPEATED: repeats} if repeats else {},
        planned=settings.get("planned"),
        graded_otherwise=not chosen and bool(scores) and len(samples) == len(taken),
    )
    return without_verdict(log)


def _of_other_filters(rows: Sequence[FileRow]) -> set[str]:
    """Return the places of rows that hold the responses of an earlier row once more."""
    first: dict[tuple[str, str], FileRow] = {}
    for row in rows:
        # by the responses, too, so that a document that was really sampled again, under one id, is
        # not taken for another filter's row
        first.setdefault((str(row[1].get("doc_id")), str(row[1].get("resps"))), row)
    taken = {location for location, _ in first.values()}
    return {location for location, _ in rows} - taken


def _lm_eval_scores(values: Mapping[str, Any]) -> list[tuple[str, object]]:
    of_filter = values.get("filter", "none")
    # a share of the responses is not a verdict on one, but tells of all: it may be chosen like one
    return [
        (f"{name},{of_filter}", 1 if name in _LM_EVAL_MEANS else values.get(name))
        for name in _metrics(values)
    ]


def _metrics(values: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of a row's metrics; before 0.4.4 they are its other numbers."""
    if "metrics" in values:
        return values["metrics"] or ()
    return [name for name, value in values.items() if name not in _NO_METRICS and is_number(value)]


def _lm_eval_samples(row: FileRow, metric: str) -> Iterator[LogSample]:
    location, values = row
    texts = [text for of_request in values["resps"] for text in of_request]
    if not texts or not all(isinstance(text, str) for text in texts):
        texts = [None]  # answered by likelihoods: the score is the choice's
    question, _ = _lm_eval_request(values)
    choices = () if texts != [None] else _continuations(values["arguments"])
    gold = single_gold(values.get("target"))
    filtered = values["filtered_resps"]
    answer = filtered[0] if len(filtered) == 1 and isinstance(filtered[0], str) else None
    # the mean of a filter that takes some responses alone says nothing of the others
    passed = metric in _LM_EVAL_MEANS and isinstance(filtered[0], list)
    passed = passed and len(filtered[0]) == len(texts)
    # -1 is in no range: the mean says nothing about these responses. Rounded, because 0.57 x 100 is
    # 56.99999999999999.
    right = round(values[metric] * len(texts), 6) if passed else -1
    for number, text in enumerate(texts):
        if len(texts) > 1 and right in range(len(texts) + 1):  # which are correct isn't known
            yield LogSample(
                str(values["doc_id"]), question, None, gold, number < right, where=location
            )
            continue
        scored = len(texts) == 1
        yield LogSample(
            str(values["doc_id"]),
            question,
            text,
            gold,
            read_verdict(values.get(metric)) if scored else None,
            answer if scored or (number == 0 and answer == text) else None,
            choices=choices,
            where=location,
        )


def _lm_eval_request(values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the prompt and the settings of a row's first request.

    Requests are a list in the rows of `simple_evaluate`, and in those of older files.
    """
    requests = values["arguments"]
    first = (requests if isinstance(requests, list) else list(requests.values()))[0]
    prompt, *others = first.values() if isinstance(first, Mapping) else first
    asked = others[0] if others and isinstance(others[0], Mapping) else {}
    return str(prompt), asked


def _continuations(requests: Any) -> tuple[str, ...]:
    """Return the choices of a problem that is answered by likelihoods, with their contexts if
    these differ."""
    pairs = [
        tuple(request.values()) if isinstance(request, Mapping) else tuple(request)
        for request in (requests if isinstance(requests, list) else requests.values())
    ]
    same = len({pair[0] for pair in pairs}) == 1
    return tuple("".join(map(str, pair[1:2] if same else pair[:2])) for pair in pairs)


def _lm_eval_settings(path: Path, rows: list[FileRow]) -> dict[str, Any]:
    """Return the settings in the rows, and in the results of the same evaluation beside them."""
    name = _LM_EVAL_NAME.fullmatch(path.name)
    _, asked = _lm_eval_request(rows[0][1])
    # without do_sample the temperature is ignored by Transformers, and the decoding is greedy
    sampled = asked.get("do_sample", bool(asked.get("temperature")))

    def beside(stored: Any) -> dict[str, Any]:
        config, version = stored["config"], stored.get("lm_eval_version")
        model = config.get("model_args") or {}
        model = model.get("pretrained") if isinstance(model, Mapping) else str(model)
        planned = (stored.get("n-samples") or {}).get(name["task"] if name else "", {})
        return {
            "model": model,
            "seed": config.get("torch_seed"),
            "version": version,
            "planned": planned.get("effective"),
        }

    return {
        "task": name["task"] if name else None,
        "temperature": asked.get("temperature") if sampled else 0,
        "top_p": asked.get("top_p"),
        "max_tokens": asked.get("max_gen_toks"),
        **(results_beside(path.with_name(f"results_{name['date']}.json"), beside) if name else {}),
    }


PROGRAM = Program(
    name="lm-eval",
    title="lm-eval",
    file="`samples_TASK_DATE.jsonl` of `--log_samples`",
    sample="a response",
    verdict="a metric and filter, such as `exact_match,none`; repeats have none",
    recognise=lambda source: _LM_EVAL.issubset(source.first),
    read=_read,
    has_fixed_columns=True,
)
