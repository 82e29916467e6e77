from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts
from sage_cli.metrics.design.cheapest import Seconds, cheapest, designs_for
from sage_cli.metrics.design.population import Population
from sage_cli.metrics.design.power import Design, Spread, smallest_changes

SPREAD = Spread(policies=0.2, runs=0.1)


@pytest.fixture(scope="module")
def population() -> Population:
    generator = np.random.default_rng(0)
    c_P = generator.binomial(256, generator.beta(0.4, 1.0, 100))
    return Population.of(Counts(tuple(map(str, range(100))), np.full(100, 256), c_P), 600)


def test_a_design_costs_its_trainings_and_its_samples() -> None:
    design = Design(100, 64, seeds=2, runs=3, policies=4)
    seconds = Seconds(policy=60, training=10, sample=0.001)
    # 4 (60 + 2 methods x 3 x 10) and 2 x 4 x 3 policies x 100 x 64 x 2 samples x .001
    assert seconds.trainings(design) == 480
    assert seconds.samples(design) == pytest.approx(307.2)
    assert seconds.total(design) == pytest.approx(787.2)


def test_the_first_is_the_cheapest_of_all_that_detect_the_difference(
    population: Population,
) -> None:
    seconds = Seconds(100, 50, 0.001)
    designs = designs_for(16, SPREAD, problems=(50, 200), samples=(16, 64))
    choices = cheapest(population, 0.06, 16, designs, seconds, spread=SPREAD)
    smallest_Q = smallest_changes(population, designs, (16,), spread=SPREAD)[:, 0]
    costs = [seconds.total(one) for one, s in zip(designs, smallest_Q, strict=True) if s <= 0.06]
    assert choices[0].total_s == pytest.approx(min(costs), rel=0.05)  # on a coarser grid of shifts
    assert [choice.total_s for choice in choices] == sorted(c.total_s for c in choices)
    assert len({choice.design.samples for choice in choices}) == len(choices)
    assert all(choice.smallest <= 0.06 for choice in choices)


def test_with_few_problems_more_samples_than_k_are_cheaper_than_more_trainings(
    population: Population,
) -> None:
    seconds, few = Seconds(3600, 3600, 1e-6), designs_for(64, SPREAD, problems=(100,))
    best = cheapest(population, 0.05, 64, few, seconds, spread=SPREAD)[0].design
    assert best.samples > 64
    free = designs_for(64, SPREAD, problems=(100,), samples=(64,))
    alone = cheapest(population, 0.05, 64, free, seconds, spread=SPREAD)[0]
    assert alone.total_s > seconds.total(best)


def test_designs_keep_to_what_is_given_and_leave_out_what_says_nothing() -> None:
    designs = designs_for(16, SPREAD, problems=(30,), samples=(8, 16, 64))
    assert {one.problems for one in designs} == {30}
    assert {one.samples for one in designs} == {16, 64}  # pass@16 needs 16
    assert min(one.policies for one in designs) == 3
    alike = designs_for(16, Spread(runs=0.1))
    assert any(one.policies == 1 for one in alike)
    # one training of each method says nothing of other seeds
    assert not any(one.policies == 1 and one.runs == 1 for one in alike)
    assert any(one.policies == one.runs == 1 for one in designs_for(16, Spread()))


def test_nothing_detects_what_is_too_small(population: Population) -> None:
    designs = designs_for(16, SPREAD, problems=(50,))
    assert cheapest(population, 1e-5, 16, designs, Seconds(1, 1, 1), spread=SPREAD) == []
