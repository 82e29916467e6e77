"""Objectives as they are typed."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.settings.objective import parse_objective


def test_objectives_are_sums_of_pass_at_k():
    one = parse_objective("pass@8")
    assert (one.name, one.weights, one.samples_needed) == ("pass@8", {8: 1.0}, 8)
    one = parse_objective("0.5*pass@1 + .25*pass@64")
    assert one.name == "0.5*pass@1+.25*pass@64"
    assert one.samples_needed == 64
    assert one.value({"pass@1": 0.4, "pass@64": 0.8}) == 0.5 * 0.4 + 0.25 * 0.8  # 0.2 + 0.2
    config = load(sets=["sweep.objective=0.5*pass@1+0.5*pass@64"]).config
    assert [one.weights for one in config.sweep.objectives] == [{1: 0.5, 64: 0.5}]


@pytest.mark.parametrize(
    "text", ["pass@0", "pass@", "reward", "pass@1-pass@2", "exact@1", "1e3*pass@1", "", "-1*pass@1"]
)
def test_what_is_no_objective_is_refused(text):
    with pytest.raises(ValueError, match="is not an objective: write pass@k, or a sum"):
        parse_objective(text)


def test_objectives_that_cannot_be_are_refused():
    with pytest.raises(ConfigurationError, match=r"'asha' needs one objective, not 2: pass@1, "):
        load(sets=["sweep.objective=[pass@1, pass@8]", "sweep.prune=asha"])
    load(sets=["sweep.objective=0.5*pass@1+0.5*pass@8", "sweep.prune=asha"])
    with pytest.raises(ValueError, match="names pass@2 twice"):
        parse_objective("pass@2+0.5*pass@2")
    with pytest.raises(ValueError, match="gives pass@2 no weight"):
        parse_objective("pass@1+0*pass@2")
    with pytest.raises(ConfigurationError, match="sweep: objective names pass@1 twice"):
        load(sets=["sweep.objective=[pass@1, ' pass@1']"])
