"""pass^k, G-Pass@k and Cover@tau of two problems, by hand."""

from types import SimpleNamespace

import pytest

from sage_cli.analysis.analysis import Inputs, Options
from sage_cli.analysis.reliability import reliability
from sage_cli.metrics import Counts


def test_by_hand():
    # of 4 samples 4 and 2 are right
    some = SimpleNamespace(policy="branch", counts=Counts(("a", "b"), [4, 4], [4, 2]))
    none = SimpleNamespace(policy="grpo", counts=Counts(("a", "b"), [4, 4], [0, 2]))
    inputs = Inputs(answers={"toy": (some, none)}, options=Options(resamples=200))
    document = reliability(inputs)
    found = {(row["measure"], row["policy"]): row["mean"] for row in document.data["measures"]}
    assert found["pass^1", "branch"] == 0.75
    # C(2, 2) / C(4, 2) = 1/6 beside 1
    assert found["pass^2", "branch"] == pytest.approx((1 + 1 / 6) / 2)
    assert found["pass^4", "branch"] == 0.5
    # of all four samples at least 1, 2, 3 are right
    assert [found[f"G-Pass@4, tau {tau}", "branch"] for tau in ("0.25", "0.5", "0.75")] == [
        1,
        1,
        0.5,
    ]
    assert [found[f"Cover@{tau}", "grpo"] for tau in ("0.25", "0.5", "0.75")] == [0.5, 0.5, 0]
    gaps = {row["measure"]: row["difference"] for row in document.data["differences"]}
    assert gaps["pass^1"] == -0.5
