"""What generators make stays what it was, sample for sample: stored results depend on it."""

import hashlib
import json
from dataclasses import asdict

import pytest

from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem import Problem
from sage_cli.settings.data import ArithmeticSection, DataSection, SourceSection
from sage_cli.settings.sft import SftSection

FEW = DataSection(arithmetic=ArithmeticSection(held_out=60, validation=60))
OTHER = DataSection(
    arithmetic=ArithmeticSection(
        seed=7, low=3, high=40, held_out=30, validation=20, familiar_share=0.5
    )
)


def pin(rows):
    fields = list(map(asdict, rows))
    for row, shown in zip(rows, fields, strict=True):
        if isinstance(row, Problem):  # nor are its worked solution and its row what it is known by
            for name in ("working", "own", "gold_text", "solved"):
                del shown[name]
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def demonstrations(data, name, steps, batch_size):
    data = data.model_copy(update={"sft": SourceSection(name=name)})
    return load_demonstrations(data, SftSection(steps=steps, batch_size=batch_size))


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (FEW, "arithmetic", "e582ab69ec57d888"),
        (FEW, "arithmetic-dev", "e34289fe7b84369e"),
        (FEW, "arithmetic-train", "5890abd8c9b23362"),
        (OTHER, "arithmetic", "a02eea2bb292e96c"),
        (OTHER, "arithmetic-dev", "5acd5ea30e7afc59"),
        (OTHER, "arithmetic-train", "11eeff06e93a3450"),
        (DataSection(), "kk-generated", "785109db962fcd75"),
    ],
)
def test_products_and_puzzles(data, name, expected):
    assert pin(load_problems(name, data)) == expected


def test_worked_products():
    assert pin(demonstrations(FEW, "arithmetic", 200, 10)) == "6fdde5d6c72bc3e7"
    assert pin(demonstrations(OTHER, "arithmetic", 30, 10)) == "a23936e50d78a3a5"
