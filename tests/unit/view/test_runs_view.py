"""A run: what it was made from, records, rollouts, ledger."""

import pytest
from shown_runs import stored_run

from sage_cli.config.schema import SageConfig
from sage_cli.errors import StoreError
from sage_cli.problems.load import load_training_problems
from sage_cli.store.ledger import PromptRow
from sage_cli.view.api import Api

BASE, BRANCH = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb"


def test_what_a_run_is_made_of_with_its_figures_by_step(api):
    found = api.answer("run", {"run": BRANCH})
    assert (found["method"]["rl.algo"], found["method"]["rl.steps"]) == ("dapo", 3)
    assert found["method"]["guide.name"] == "branch"
    assert found["settings"]["guide.tau"] == 0.465
    base, branch = (api.answer("run", {"run": one}) for one in (BASE, BRANCH))
    assert set(base["children"]) == {BRANCH, "rl-dapo-cccccccc"}
    assert branch["manifest"]["parent"] == BASE
    assert branch["figures"]["pass@8 on arithmetic"] == pytest.approx(5 / 6)
    assert (branch["rollouts"] > 0, branch["ledger"]) == (True, True)
    assert branch["policies"] == [BRANCH]
    assert branch["speed"]["speed/share/generate"] == pytest.approx(0.5)
    found = api.answer("run", {"run": "rl-torn-dddddddd"})
    assert found["status"] == "corrupt"
    assert "is corrupt or was edited" in found["why_corrupt"]
    assert found["method"] == {}
    with pytest.raises(StoreError, match="there is no run 'rl-none-00000000'"):
        api.answer("run", {"run": "rl-none-00000000"})
    found = api.answer("records", {"run": BRANCH, "names": "reward,nothing"})
    assert found["steps"] == [1, 2, 3]
    assert found["values"]["reward"] == pytest.approx([0.2, 0.4, 0.6])
    assert found["values"]["nothing"] == [None] * 3
    last = api.answer("rollouts", {"run": BRANCH})
    assert (last["steps"], last["step"]) == ([1, 2], 2)
    first = api.answer("rollouts", {"run": BRANCH, "step": "1"})
    assert first["rows"][0]["completion"].startswith("step 1")
    ledger = api.answer("ledger", {"run": BRANCH})
    assert ledger["steps"][0]["right"] == 1
    assert ledger["rows"][0]["problem"] == "p"
    assert ledger["problems"] == {}  # it is of no data that can be read


def test_a_ledger_names_questions_and_golds_of_the_training_data(tmp_path):
    run = stored_run(tmp_path, "dapo", "a")
    data = SageConfig.model_validate(run.read_config()).data
    first, second = load_training_problems(data)[:2]
    ledger_file = run.ledger
    for step, problem in enumerate((first, second), 2):
        ledger_file.add(step, [PromptRow(problem.id, 4, 1, 3, 0, 0, 0, 40, 10, True)])
    ledger_file.seal()
    ledger = Api(tmp_path).answer("ledger", {"run": run.id, "step": "3"})
    assert ledger["problems"] == {
        second.id: {"question": second.question, "gold": second.gold}
    }  # of the step that is shown alone
    (run.folder / "config.json").write_text('{"data": {"rl": {"name": "gone.jsonl"}}}')
    again = Api(tmp_path).answer("ledger", {"run": run.id})
    assert (again["problems"], again["rows"][0]["problem"]) == ({}, second.id)


def test_the_table_has_the_settings_that_differ_and_groups_of_seeds(tmp_path):
    dapo = {"rl": {"algo": "dapo"}}
    for place, (label, settings) in enumerate(
        [("dapo", dapo), ("grpo", {}), ("dapo", {"rl": {"algo": "dapo", "seed": 2}})]
    ):
        stored_run(tmp_path, label, f"{place}", settings=settings)
    table = Api(tmp_path).answer("runs", {})
    assert [name for name in table["columns"] if name.startswith("rl.")] == ["rl.algo", "rl.seed"]
    # the group with the latest run is the last
    assert [row["group"] for row in table["runs"]] == [1, 0, 1]
