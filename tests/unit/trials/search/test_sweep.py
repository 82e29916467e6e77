"""A sweep before anything is trained: its sampler, and what makes it impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.trials.search.space import Range, Space, Values
from sage_cli.trials.search.sweep import choose_sampler, prepared

PARAMETERS = {
    "tau": Range(key="guide.tau", range=(0, 1)),
    "rho": Range(key="guide.rho", range=(0, 1)),
    "beta": Values(key="anchor.beta", values=(0.1, 0.2, 0.3)),
    "algo": Values(key="rl.algo", values=("grpo", "dapo")),
    "delta": Range(key="rl.delta", range=(2, 5), when={"rl.algo": ("dapo",)}),
}


def space(names):
    return Space(parameters={name: PARAMETERS[name] for name in names.split()})


def test_values_make_a_grid_and_ranges_a_search():
    assert choose_sampler(None, space("algo"), ["pass@1"]) == "grid"
    assert choose_sampler(None, space("algo tau"), ["pass@1"]) == "tpe"
    assert choose_sampler("random", space("algo"), ["pass@1"]) == "random"
    assert choose_sampler("cmaes", space("tau beta"), ["pass@1"]) == "cmaes"


@pytest.mark.parametrize(
    ("sampler", "names", "objectives", "said", "able"),
    [
        ("grid", "algo tau", 1, "needs a list of values for tau, not a range", "tau=0.1|0.2"),
        ("cmaes", "tau rho", 2, "takes one objective, not 2: pass@1, pass@64", "gp, nsga2"),
        ("cmaes", "tau algo", 1, "searches numbers only, and algo has words", "tpe, gp, n"),
        ("cmaes", "tau", 1, "needs at least two parameters", "random, qmc, tpe, gp, nsga2"),
        ("gp", "algo delta", 1, "but some points lack delta", "--sampler random, tpe, nsga2"),
        ("qmc", "algo delta", 1, "but some points lack delta", "random, tpe, nsga2"),
    ],
)
def test_a_sampler_that_cannot_names_those_that_can(sampler, names, objectives, said, able):
    with pytest.raises(ConfigurationError) as caught:
        choose_sampler(sampler, space(names), ["pass@1", "pass@64"][:objectives])
    assert said in caught.value.cause
    assert able in caught.value.next_step


def test_an_unknown_sampler_is_refused_at_load():
    with pytest.raises(ConfigurationError, match=r"'tpee'; it can be grid, .*\(did you mean tpe\?"):
        load(sets=["sweep.sampler=tpee"])


def sweep_of(tmp_path: Path, objective: str, limit: int, **named: object) -> SageConfig:
    section = {"space": "tau=0.2:0.8", "sampler": "random", "objective": objective, **named}
    settings = {
        "run": {"root": tmp_path},
        "guide": {"name": "branch"},
        "evaluation": {"limit": limit},
    }
    return load(["tiny"], {**settings, "sweep": section}).config


@pytest.mark.parametrize(("objective", "limit"), [("gain@8", 2), ("exact@8", 1), ("pass@8", 1)])
def test_so_many_problems_are_enough(tmp_path: Path, objective: str, limit: int) -> None:
    sweep = prepared(sweep_of(tmp_path, objective, limit))
    assert {len(one.problems) for one in sweep.benchmarks} == {limit}


def test_a_gain_on_one_problem_is_refused(tmp_path: Path) -> None:
    """The jackknife leaves out one problem after the other."""
    with pytest.raises(ConfigurationError, match=r"gain@8 needs two problems or more, .* has one"):
        prepared(sweep_of(tmp_path, "gain@8", 1))


@pytest.mark.parametrize("objective", ["pass@8", "exact@8"])
def test_temperatures_that_nothing_reads_are_refused(tmp_path: Path, objective: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"temperatures 1.3 would do .* is {objective}"):
        prepared(sweep_of(tmp_path, objective, 2, temperatures=[1.3]))
    prepared(sweep_of(tmp_path, "gain@8", 2, temperatures=[1.3]))
