"""A space in Optuna's terms: lists of numbers have an order for samplers that can use one."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sage_cli.trials.sweep.samplers import OptunaSpace, ordered_lists
from sage_cli.trials.sweep.space import Range, Space, Values
from sage_cli.trials.sweep.study import Study
from sage_cli.trials.sweep.study_trial import State

TAU = Values(key="guide.tau", values=(0.6, 0.2, 0.4))
SPACE = Space(
    parameters={
        "tau": TAU,
        "guide": Values(key="guide.name", values=("token", "branch")),
        "copy": Values(key="rl.copy", values=(True, False)),
        "rho": Range(key="guide.rho", range=(0.1, 1.0), when={"guide.name": ("branch",)}),
    }
)


def test_lists_of_numbers_have_an_order_and_points_go_there_and_back():
    for sampler in ("qmc", "tpe", "gp", "cmaes"):
        assert ordered_lists(SPACE, sampler) == ["tau"]
    for sampler in ("grid", "random", "nsga2"):
        assert ordered_lists(SPACE, sampler) == []
    assert list(OptunaSpace(SPACE, ["tau"]).always) == ["tau", "guide", "copy"]
    point = {"guide.tau": 0.4, "guide.name": "branch", "guide.rho": 0.5}
    params, distributions = OptunaSpace(SPACE, ["tau"]).to_params(point)
    assert params == {"tau": 1, "guide": "branch", "rho": 0.5}  # .4 is the second by size
    assert distributions == {
        "tau": IntDistribution(0, 2),
        "guide": CategoricalDistribution(("token", "branch")),
        "rho": FloatDistribution(0.1, 1.0),
    }
    assert OptunaSpace(SPACE, ["tau"]).from_params(params) == point
    assert OptunaSpace(SPACE, ()).to_params(point)[0] == {"tau": 0.4, "guide": "branch", "rho": 0.5}


def falling_from_08(folder, sampler, seed):
    """A study of forty values that knows every third one; the best is at .8."""
    taus = Values(key="guide.tau", values=tuple(i / 39 for i in range(40)))
    space = Space(parameters={"tau": taus})
    study = Study.open(folder / f"{sampler}{seed}", "s", space, sampler, seed, ["pass@1"])
    for step in range(0, 40, 3):
        study.known({"guide.tau": step / 39}, [-abs(step / 39 - 0.8)], "grid")
    return study


def test_tpe_and_gp_learn_from_values_nearby(tmp_path):
    study = falling_from_08(tmp_path, "tpe", 0)
    proposed = sorted(study.propose().point["guide.tau"] for _ in range(5))
    # of 26 values left 6 are within .1 of .8; three of five are so once in 14 times without order
    assert proposed[2] == pytest.approx(0.8, abs=0.1)
    # of 26 values left 3 are within .05 of .8: the first of three studies are so once in 650 times
    for seed in range(3):
        first = falling_from_08(tmp_path, "gp", seed).propose().point["guide.tau"]
        assert first == pytest.approx(0.8, abs=0.05)


def test_the_known_and_the_failed_come_back_as_values(tmp_path):
    def opened():
        return Study.open(tmp_path, "s", Space(parameters={"tau": TAU}), "tpe", 0, ["pass@1"])

    study = opened()
    assert study.known({"guide.tau": 0.4}, [0.7], "elsewhere")
    failed = study.propose()
    study.fail(failed, "killed", "")
    again = opened()
    assert again.propose().point == failed.point
    states = {one.point["guide.tau"]: one.state for one in opened().trials()}
    assert states == {0.4: State.DONE, failed.point["guide.tau"]: State.RUNNING}


@pytest.mark.parametrize(
    ("sampler", "name"),
    [("grid", "mine/040f7ecb"), ("random", "mine/dd6c09cb"), ("nsga2", "mine/6ca28ab7")],
)
def test_studies_of_values_are_called_what_they_were(tmp_path, sampler, name):
    tau = Values(key="guide.tau", values=(0.1, 0.2))
    rho = Values(key="guide.rho", values=(1.0, 2.0))
    space = Space(parameters={"tau": tau, "rho": rho})
    study = Study.open(tmp_path, "mine", space, sampler, 0, ["pass@1"])
    assert study.name == name
