"""Every Eval Ever's instance-level files, `UUID_samples.jsonl`: a row a sample and score."""

from __future__ import annotations

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
from sage_cli.problems.files import Row, read_file

NEEDED = {"evaluation_id", "sample_id", "interaction_type", "input", "evaluation"}
EXPECTED = (
    'an instance is as {"sample_id": "0", "interaction_type": "single_turn", "input": {"raw": '
    '"2+2=?", "reference": ["4"]}, "output": {"raw": ["4"]}, "evaluation": {"is_correct": true}, '
    "...}"
)


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of one evaluation and score; a model's repeated rows are its samples."""
    rows = list(read_file(path))
    if not rows or not all(NEEDED.issubset(values) for _, values in rows):
        raise DataError(f"{path} is no instance-level file of Every Eval Ever")
    names = list(dict.fromkeys(_score_of(values) for _, values in rows))
    chosen = chosen_score(names, score, str(path))
    taken = [(place, values) for place, values in rows if _score_of(values) == chosen]
    models = {str(values.get("model_id")) for _, values in taken}
    if len(models) > 1:
        raise DataError(
            f"{path} holds samples of {len(models)} models: {', '.join(sorted(models))}",
            "import a file of one model",
        )
    samples = of_each(taken, _samples, EXPECTED)
    left = len(names) - 1
    notes = (f"{left} further scores are not taken; --score names one",) if left else ()
    return ForeignFile("every-eval-ever", samples, chosen, {"model": models.pop()}, notes)


def _score_of(values: Mapping[str, Any]) -> str:
    return str(values.get("evaluation_result_id") or values.get("evaluation_name"))


def _samples(row: Row) -> Iterator[ForeignSample]:
    place, values = row
    output = values.get("output")
    if values["interaction_type"] != "single_turn" or not isinstance(output, dict):
        raise DataError(
            f"{place} is a conversation of several turns, not one completion",
            "import single-turn evaluations",
        )
    texts = output.get("raw")
    texts = texts if isinstance(texts, list) else [texts]
    asked, judged = values["input"], values["evaluation"]
    gold = only(asked["reference"], place, "input.reference") if asked.get("reference") else None
    terminal = [one for one in values.get("answer_attribution") or () if one.get("is_terminal")]
    extracted = str(terminal[-1]["extracted_value"]) if terminal else None
    usage = values.get("token_usage") or {}
    one = len(texts) == 1
    for text in texts:
        yield ForeignSample(
            str(values["sample_id"]), str(asked["raw"]), str(text), gold,
            verdict(judged["is_correct"]) if one else None,
            extracted if one else None,
            usage.get("output_tokens") if one else None,
        )  # fmt: skip
