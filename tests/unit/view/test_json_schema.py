"""The schemas by which the page's answers are checked are as strict as JSON allows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NotRequired

import numpy as np
import pytest
from json_schema import json_schema
from jsonschema import Draft202012Validator
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, with_config
from typing_extensions import TypedDict

from sage_cli.store.files import json_text


@dataclass(frozen=True)
class Inner:
    ends: tuple[float, float] | None = None
    names: tuple[str, ...] = ()


class Answer(TypedDict):
    values: NDArray[np.float64]
    inner: Inner
    more: NotRequired[int]


@with_config(ConfigDict(extra="allow"))
class Open(TypedDict):
    stage: str


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")
    steps: int = 3


def fits(value, *kinds):
    """As it is written and read back."""
    schema = json_schema(*kinds)
    Draft202012Validator.check_schema(schema)
    return bool(Draft202012Validator(schema).is_valid(json.loads(json_text(value))))


ARRAY = np.array([0.5, math.nan, math.inf])


def test_what_fits_a_type():
    assert fits({"values": ARRAY, "inner": Inner()}, Answer)
    assert fits({"values": ARRAY, "inner": Inner((math.nan, -math.inf), ("a",)), "more": 1}, Answer)
    assert fits({"stage": "1", "steps": 3}, Open)
    assert not fits({"steps": 3}, Open)
    for value in ({"steps": 3}, {"values": ARRAY, "inner": Inner()}):
        assert fits(value, Answer, Section)
    assert not fits({"stage": "1"}, Answer, Section)
    assert not fits({}, Section)  # what has a default is written


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": ARRAY},
        {"values": ARRAY, "inner": Inner(), "others": 1},
        {"values": ["a"], "inner": Inner()},
        {"values": ARRAY, "inner": {"ends": None}},  # a default is written too
        {"values": ARRAY, "inner": {"ends": None, "names": [], "other": 1}},
        {"values": ARRAY, "inner": {"ends": [1.0], "names": []}},
        {"values": ARRAY, "inner": Inner(), "more": None},
    ],
)
def test_a_lacking_an_unknown_or_a_wrong_key_does_not_fit(wrong):
    assert not fits(wrong, Answer)
