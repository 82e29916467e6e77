"""JSON that any reader accepts."""

import json
import math
from pathlib import Path

import numpy as np

from sage_cli.store.files import json_text


def strictly(text):
    """As a reader that follows the standard: Python's own takes NaN without a word."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_undefined_is_null_wherever_it_stands():
    value = {"a": math.nan, "b": [1.5, (math.nan, True)], "c": {"d": math.inf, "e": -math.inf}}
    assert strictly(json_text(value)) == {
        "a": None, "b": [1.5, [None, True]], "c": {"d": "inf", "e": "-inf"},
    }  # fmt: skip


def test_arrays_and_numbers_of_numpy_keep_their_digits():
    value = {"pass@k": np.array([0.1 + 0.2, math.nan]), "n": np.int64(3), "x": np.float32(0.5)}
    assert strictly(json_text(value)) == {
        "pass@k": [0.30000000000000004, None], "n": 3, "x": 0.5,
    }  # fmt: skip


def test_readable_text_with_a_lines_end():
    assert json_text({"τ": Path("runs")}) == '{\n  "τ": "runs"\n}\n'
