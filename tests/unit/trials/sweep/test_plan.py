"""A sweep before anything is trained: its sampler, and what makes it impossible."""

from dataclasses import replace

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.store.result_hash import identity_of
from sage_cli.trials.sweep.folder import SweepFolder, sweep_folder
from sage_cli.trials.sweep.plan import prepare_sweep, sweep_settings
from sage_cli.trials.sweep.sampler_choice import choose_sampler
from sage_cli.trials.sweep.space import Range, Space, Values

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
    with pytest.raises(ConfigurationError, match=r"'tpee'; it can be grid, .*\(did you mean tpe\?"):
        load(sets=["sweep.sampler=tpee"])


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


def sweep_of(tmp_path, objective, limit, **named):
    section = {"space": "tau=0.2:0.8", "sampler": "random", "objective": objective, **named}
    settings = {"run": {"root": tmp_path}, "guide": {"name": "branch"}, "sweep": section}
    return load(["tiny"], {**settings, "evaluation": {"limit": limit}}).config


def test_one_problem_is_enough_and_a_long_list_of_points_is_cut(tmp_path):
    sweep = prepare_sweep(sweep_of(tmp_path, "pass@8", 1))
    assert {len(one.problems) for one in sweep.benchmarks} == {1}
    space = "lr=" + "|".join(f"{place}e-5" for place in range(1, 31))
    sweep = prepare_sweep(sweep_of(tmp_path, "pass@8", 1, space=space, sampler="grid", trials=None))
    lines = sweep.announcement.splitlines()
    assert (len(lines), lines[-1].strip()) == (26, "and 6 more")


@pytest.mark.parametrize(
    ("space", "sampler", "trials", "lines"),
    [
        (
            "lr=1e-4|4e-4,beta=0.02|0.2",
            "grid",
            None,
            [
                "4 trials:",
                "learning_rate 0.0001, beta 0.02",
                "learning_rate 0.0001, beta 0.2",
                "learning_rate 0.0004, beta 0.02",
                "learning_rate 0.0004, beta 0.2",
            ],
        ),
        ("tau=0.2:0.8", "tpe", 7, ["7 trials: tpe chooses tau"]),
        (
            "tau=0.2|0.8",
            "tpe",
            7,
            [
                "2 trials (the space has only 2 points, fewer than --trials 7): tpe chooses tau",
            ],
        ),
    ],
)
def test_a_sweep_says_what_it_will_try(tmp_path, space, sampler, trials, lines):
    named = {"space": space, "sampler": sampler, "trials": trials}
    sweep = prepare_sweep(sweep_of(tmp_path, "pass@8", 1, **named))
    assert [line.strip() for line in sweep.announcement.splitlines()] == lines


def unclipped(tmp_path, space="tau=0.2|0.8", **rl):
    """A sweep under a method that clips nothing, so that no trial reads rl.epsilon_low."""
    section = {"space": space, "sampler": "grid"}
    flags = {"run": {"root": tmp_path}, "guide": {"name": "branch"}, "sweep": section}
    return prepare_sweep(load(["tiny"], {**flags, "rl": {"clip": False, **rl}}).config)


def test_a_setting_that_no_trial_reads_is_no_part_of_a_sweeps_name(tmp_path):
    assert unclipped(tmp_path).folder.name == unclipped(tmp_path, epsilon_low=0.4).folder.name
    clipped = [unclipped(tmp_path, clip=True, epsilon_low=low).folder.name for low in (0.2, 0.4)]
    assert clipped[0] != clipped[1]
    # where the clipping itself is searched, some trials read it
    searched = [
        unclipped(tmp_path, space="clip=true|false", epsilon_low=low).folder.name
        for low in (0.2, 0.4)
    ]
    assert searched[0] != searched[1]


def test_a_sweep_of_an_earlier_release_is_found_and_resumed(tmp_path):
    sweep = unclipped(tmp_path, epsilon_low=0.4)
    given = sweep_settings(sweep.shared, sweep.space.keys, as_given=True)
    former = sweep_folder(tmp_path, f"tau-{identity_of('sweep', given)[:8]}")
    assert former.name != sweep.folder.name
    SweepFolder(former).check_same(given, lambda _: True)  # as an earlier release wrote it
    found = unclipped(tmp_path, epsilon_low=0.4)
    assert found.folder.path == former
    found.check_same()
    longer = replace(unclipped(tmp_path, learning_rate=0.5), folder=found.folder)
    with pytest.raises(ConfigurationError, match=r"another sweep: rl.learning_rate was .*, is 0.5"):
        longer.check_same()
    sweep.check_same()  # once there is one under today's name, that one is meant
    assert unclipped(tmp_path, epsilon_low=0.4).folder.path == sweep.folder.path
