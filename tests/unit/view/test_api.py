"""Every answer is of its type, by schemas as strict as JSON allows: the page may rely on it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NotRequired

import jsonschema
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from sage_cli.store.json_files import compact_json, json_text
from sage_cli.view.api import ANSWERS
from sage_cli.view.page_file import Export, contents
from sage_cli.view.passk_view import DifferenceView, PasskView
from sage_cli.view.problems_view import ProblemsView, ProblemView
from sage_cli.view.runs_view import LedgerView, RecordsView, RolloutsView, RunsView, RunView
from sage_cli.view.samples_view import SampleRow, SamplesView
from sage_cli.view.tokens_view import TokensView
from sage_cli.view.trials_view import SuitesView, SuiteView, SweepsView, SweepView

BASE, BRANCH = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb"
BOTH = {"policies": f"{BASE},{BRANCH},nobody"}
TYPES = {
    "runs": (RunsView, {"columns": "guide.tau"}),
    "run": (RunView, {"run": BRANCH}),
    "records": (RecordsView, {"run": BRANCH, "names": "reward"}),
    "rollouts": (RolloutsView, {"run": BRANCH}),
    "ledger": (LedgerView, {"run": BRANCH}),
    "passk": (PasskView, BOTH),
    "difference": (DifferenceView, {"a": BRANCH, "b": BASE, "benchmark": "arithmetic"}),
    "problems": (ProblemsView, BOTH),
    "problem": (ProblemView, BOTH),
    "samples": (SamplesView, {"policy": BRANCH}),
    "sample": (SampleRow, {"policy": BRANCH, "seed": "0", "index": "0"}),
    "tokens": (TokensView, {"policy": BRANCH, "seed": "0", "index": "0"}),
    "sweeps": (SweepsView, {}),
    "sweep": (SweepView, {"sweep": "tau-rho-12345678"}),
    "suites": (SuitesView, {}),
    "suite": (SuiteView, {"suite": "demo-12345678"}),
}


def json_schema(*kinds):
    """The schema of JSON made from one of these: TypedDicts, dataclasses, sections.

    Every key that a type names is there, unless it is a `NotRequired` one, and no other.
    """
    # the configuration of a tuple reaches the types inside, which may hold arrays
    whole = tuple.__class_getitem__(kinds)
    adapter = TypeAdapter(whole, config=ConfigDict(arbitrary_types_allowed=True))
    found = adapter.json_schema(mode="serialization", schema_generator=_Schema)
    schemas, parts = found["prefixItems"], found.get("$defs", {})
    one = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {**one, **({"$defs": parts} if parts else {})}


class _Schema(GenerateJsonSchema):
    """Pydantic's, for what `json_text` writes."""

    def field_is_required(self, field, total):
        """A field with a default is written like any other."""
        return field["type"] != "typed-dict-field" or super().field_is_required(field, total)

    def field_title_should_be_set(self, _schema):
        """A key says enough."""
        return False

    def float_schema(self, _schema):
        """JSON has no NaN and no infinity: `json_text` writes null and these texts."""
        return {"anyOf": [{"type": "number"}, {"enum": [None, "inf", "-inf"]}]}

    def is_instance_schema(self, _schema):
        """The one foreign class that answers hold: an array of numpy, of one dimension."""
        return {"type": "array", "items": self.float_schema({"type": "float"})}

    def default_schema(self, schema):
        """Leave out defaults: answers have every key."""
        return self.generate_inner(schema["schema"])

    def typed_dict_schema(self, schema):
        """Closed, unless the type says that it is open."""
        return {"additionalProperties": False, **super().typed_dict_schema(schema)}

    def dataclass_schema(self, schema):
        """Closed."""
        return {"additionalProperties": False, **super().dataclass_schema(schema)}


def test_every_answer_and_an_export_have_a_type(shown):
    assert set(TYPES) == set(ANSWERS)
    held = json.loads(compact_json(contents(shown, "run", BRANCH)))
    jsonschema.validate(held, json_schema(Export))


@pytest.mark.parametrize("name", TYPES)
def test_an_answer_is_of_its_type(api, name):
    kind, values = TYPES[name]
    if name in ("problem", "sample", "tokens"):
        problem = api.answer("problems", {"policies": BRANCH})["problems"][0]["problem"]
        values = {**values, "problem": problem}
    answer = json.loads(compact_json(api.answer(name, values)))
    jsonschema.validate(answer, json_schema(kind))


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
