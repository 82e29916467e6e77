"""Where methods' weight lies and where they agree, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sage_cli.analysis.analysis import Inputs, Options, TrainedRun
from sage_cli.analysis.measures.reweigh import reweigh
from sage_cli.errors import StoreError
from sage_cli.store.runs.training_completions import SCHEMA as COMPLETIONS
from sage_cli.store.runs.training_ledger import SCHEMA


def ledger(*rights: int) -> pa.Table:
    """Return a step of groups of four, of 10 tokens each completion; so many are right."""
    rows = [
        {
            "step": 1, "problem": str(place), "n": 4, "right": right, "wrong": 4 - right,
            "unparseable": 0, "timeout": 0, "error": 0, "tokens": 40, "right_tokens": 10 * right,
            "trained": True,
        }
        for place, right in enumerate(rights)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def method(name: str, formula: Any) -> Any:
    return SimpleNamespace(algo=name, computed_by_trl=None, advantages=formula)


CENTRED = method("centred", lambda i: (i.right_PN - i.right_PN.mean(1, keepdim=True)).flatten())
WRONG_ALONE = method("wrong", lambda i: (i.right_PN - 1).flatten())


def document(*rights: int) -> Any:
    run = TrainedRun("rl-1", [{"step": 1}], {}, ledger(*rights), COMPLETIONS.empty_table)
    options = Options(methods=(CENTRED, WRONG_ALONE))
    return reweigh(Inputs(trained={"rl-1": run}, options=options))


def test_shares_of_the_weight():
    # one of four is right: |3/4| + 3 |1/4|; none is: 0; all are: 0
    centred, wrong = document(1, 0, 4).data["weights"]
    assert centred["completions weighed"] == pytest.approx(4 / 12)
    assert centred["on right ones"] == pytest.approx(0.5)
    assert centred["up to 1/4"] == 1
    # -1 on the three wrong ones of the first group and the four of the second
    assert wrong["completions weighed"] == pytest.approx(7 / 12)
    assert (wrong["on right ones"], wrong["none right"]) == (0, pytest.approx(4 / 7))
    assert wrong["up to 1/4"] == pytest.approx(3 / 7)


def test_agreement():
    (row,) = document(1, 0, 4).data["agreement"]
    # either: four of the first group, four of the second; the same sign: three wrong ones
    assert (row["method"], row["beside"]) == ("centred", "wrong")
    assert row["same sign"] == pytest.approx(3 / 8)
    assert row["opposite"] == 0
    assert row["one alone"] == pytest.approx(5 / 8)


def test_a_run_without_a_ledger_is_named():
    run = TrainedRun("sft-1", [{"step": 1}], {}, SCHEMA.empty_table(), COMPLETIONS.empty_table)
    with pytest.raises(StoreError, match="sft-1 has no ledger"):
        reweigh(Inputs(trained={"sft": run}, options=Options(methods=(CENTRED,))))


def test_groups_of_another_size_are_left_out_and_said():
    table = pa.concat_tables(
        [ledger(1, 2), ledger(2).set_column(2, SCHEMA.field("n"), pa.array([3], pa.int32()))]
    )
    run = TrainedRun("rl-1", [{"step": 1}], {}, table, COMPLETIONS.empty_table)
    found = reweigh(Inputs(trained={"rl-1": run}, options=Options(methods=(CENTRED,))))
    assert any("1 groups of another size" in note for note in found.notes)
