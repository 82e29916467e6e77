"""Every answer is of its type, which is what the page may rely on."""

import json

import jsonschema
import pytest
from json_schema import json_schema

from sage_cli.store.files import compact_json
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
