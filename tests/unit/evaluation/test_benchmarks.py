from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import load_benchmarks


def loaded(path: Path) -> list[str]:
    config = load(sets=[f"evaluation.benchmark={path}"]).config
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    return list(benchmark.golds.values())


def test_one_question_with_two_golds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question,gold\n1+1=?,2\n2+2=?,4\n")
    assert loaded(path) == ["2", "4"]
    path.write_text("question,gold\n1+1=?,2\n1+1=?,3\n")
    with pytest.raises(DataError, match="one question with two golds") as refusal:
        loaded(path)
    assert "says 2" in refusal.value.cause
    assert "says 3" in refusal.value.cause
