"""The paper's printed numbers, to lay one's own beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.reports.table import Measure, Scores


def evaluation_tables() -> Mapping[str, str]:
    """The tables with pass@k per benchmark, and the model that each is about."""
    return {name: table["model"] for name, table in published()["evaluation"].items()}


def published_scores(table: str) -> Mapping[str, Scores]:
    """Method -> benchmark -> k -> pass@k with its standard deviation, of `table1`, 3, 4 or 9."""
    tables = published()["evaluation"]
    if table not in tables:
        raise ConfigurationError(
            f"the paper has no evaluation table '{table}'", f"it has {', '.join(tables)}"
        )
    return {
        method: {
            benchmark: {int(k): Measure(mean, sd) for k, (mean, sd) in by_k.items()}
            for benchmark, by_k in scores.items()
        }
        for method, scores in tables[table]["rows"].items()
    }


@cache
def published() -> Mapping[str, Any]:
    """Everything in print, as the file has it.

    `evaluation` (Tables 1, 3, 4, 9: mean and standard deviation by k), `sweep` (Table 6),
    `patterns` (Table 2), `gradient_norm` (Table 5).
    """
    text = files("sage_cli.reports").joinpath("published.json").read_text(encoding="utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables
