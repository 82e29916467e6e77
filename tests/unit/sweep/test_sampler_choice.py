"""Which sampler searches what, and what is said where it can't."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.sampler_choice import choose_sampler
from sage_cli.sweep.space import Parameter, Range, Space, Values

TAU, RHO = (Parameter(name, f"guide.{name}", Range(0, 1)) for name in ("tau", "rho"))
LISTED = Parameter("beta", "anchor.beta", Values((0.1, 0.2, 0.3)))
ALGO = Parameter("algo", "rl.algo", Values(("grpo", "dapo")))
DELTA = Parameter("delta", "rl.delta", Range(2, 5), {"rl.algo": ("dapo",)})


def test_values_make_a_grid_and_ranges_a_search():
    assert choose_sampler(None, Space((ALGO,)), ["pass@1"]) == "grid"
    assert choose_sampler(None, Space((ALGO, TAU)), ["pass@1"]) == "tpe"
    assert choose_sampler("random", Space((ALGO,)), ["pass@1"]) == "random"
    assert choose_sampler("cmaes", Space((TAU, LISTED)), ["pass@1"]) == "cmaes"


@pytest.mark.parametrize(
    ("sampler", "parameters", "objectives", "said", "able"),
    [
        ("grid", (ALGO, TAU), 1, "takes every value of each parameter, and tau has", "tau=0.1|0.2"),
        (
            "cmaes",
            (TAU, RHO),
            2,
            "takes one objective, and there are 2: pass@1, pass@64",
            "gp, nsg",
        ),
        (
            "cmaes",
            (TAU, ALGO),
            1,
            "searches numbers alone, and algo has values that",
            "tpe, gp, nsga2",
        ),
        ("cmaes", (TAU,), 1, "needs two parameters at least", "random, qmc, tpe, gp, nsga2"),
        (
            "gp",
            (ALGO, DELTA),
            1,
            "and delta exists in some only",
            "choose --sampler random, tpe, n",
        ),
        ("qmc", (ALGO, DELTA), 1, "and delta exists in some only", "random, tpe, nsga2"),
    ],
)
def test_a_sampler_that_cannot_names_those_that_can(sampler, parameters, objectives, said, able):
    with pytest.raises(ConfigurationError) as caught:
        choose_sampler(sampler, Space(parameters), ["pass@1", "pass@64"][:objectives])
    assert said in caught.value.cause
    assert able in caught.value.next_step


def test_an_unknown_sampler_is_refused_at_load():
    with pytest.raises(ConfigurationError, match=r"'tpee'; it can be grid, .*\(did you mean tpe\?"):
        load(sets=["sweep.sampler=tpee"])
